"""Torch's global switches that a compiler may read, each with source to read and to set the value.

Torch is not imported here: the capture evaluates `read`, a repro contains `write`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from minifier.case.case import State
from minifier.case.literals import literal
from minifier.interfaces.names import DETERMINISTIC


@dataclass(frozen=True, slots=True)
class Switch:
    """A switch. `write` has `{}` for the value; `forms` maps special values to whole statements.

    `implies` maps a value to the values that other switches get from this setting. `sets` lists the configuration
    values, (module, key), that are set to the same value.
    """

    name: str
    read: str
    write: str
    forms: Mapping[Any, str] = field(default_factory=dict)
    implies: Mapping[Any, Mapping[str, Any]] = field(default_factory=dict)
    sets: tuple[tuple[str, str], ...] = ()

    def statement(self, value: Any) -> str:
        """Return the line of source that sets the switch to `value`."""
        return self.forms.get(value) or self.write.format(literal(value))


def _attribute(path: str, **more: Any) -> Switch:
    return Switch(path, f"torch.{path}", f"torch.{path} = {{}}", **more)


def _sdp(kind: str) -> Switch:
    return Switch(
        f"backends.cuda.{kind}_sdp",
        f"torch.backends.cuda.{kind}_sdp_enabled()",
        f"torch.backends.cuda.enable_{kind}_sdp({{}})",
    )


_PRECISION = "fp32_precision"
_OPERATORS = ("cudnn.conv", "cudnn.rnn", "mkldnn.conv", "mkldnn.rnn")


def _matmul(cuda: str, mkldnn: str) -> dict[str, str]:
    return {f"backends.cuda.matmul.{_PRECISION}": cuda, f"backends.mkldnn.matmul.{_PRECISION}": mkldnn}


# In the order of setting: the general before the specific.
SWITCHES: tuple[Switch, ...] = (
    Switch(
        "deterministic_algorithms",
        "torch.are_deterministic_algorithms_enabled() and "
        "('warn' if torch.is_deterministic_algorithms_warn_only_enabled() else True)",
        "torch.use_deterministic_algorithms({})",
        forms={"warn": "torch.use_deterministic_algorithms(True, warn_only=True)"},
        sets=(DETERMINISTIC,),
    ),
    _attribute("utils.deterministic.fill_uninitialized_memory"),
    _attribute(
        f"backends.{_PRECISION}",
        implies={
            value: {f"backends.{place}.{_PRECISION}": value for place in _OPERATORS}
            for value in ("ieee", "tf32", "bf16")
        },
    ),
    Switch(
        "float32_matmul_precision",
        "torch.get_float32_matmul_precision()",
        "torch.set_float32_matmul_precision({})",
        implies={
            "highest": _matmul("ieee", "ieee"),
            "high": _matmul("tf32", "tf32"),
            "medium": _matmul("tf32", "bf16"),
        },
    ),
    *(_attribute(f"backends.{place}.{_PRECISION}") for place in ("cuda.matmul", "mkldnn.matmul", *_OPERATORS)),
    _attribute("backends.cuda.matmul.allow_fp16_reduced_precision_reduction"),
    _attribute("backends.cuda.matmul.allow_bf16_reduced_precision_reduction"),
    _attribute("backends.cuda.matmul.allow_fp16_accumulation"),
    *(_sdp(kind) for kind in ("flash", "mem_efficient", "math", "cudnn")),
    Switch(
        "backends.cuda.fp16_bf16_reduction_math_sdp",
        "torch.backends.cuda.fp16_bf16_reduction_math_sdp_allowed()",
        "torch.backends.cuda.allow_fp16_bf16_reduction_math_sdp({})",
    ),
    *(_attribute(f"backends.cudnn.{key}") for key in ("enabled", "deterministic", "benchmark", "benchmark_limit")),
    _attribute("backends.mkldnn.enabled"),
    _attribute("backends.mkldnn.deterministic"),
    Switch(
        "backends.mha.fastpath",
        "torch.backends.mha.get_fastpath_enabled()",
        "torch.backends.mha.set_fastpath_enabled({})",
    ),
    _attribute("backends.opt_einsum.enabled"),
    _attribute("backends.opt_einsum.strategy"),
    _attribute("backends.quantized.engine"),
    Switch("num_threads", "torch.get_num_threads()", "torch.set_num_threads({})"),
    Switch("num_interop_threads", "torch.get_num_interop_threads()", "torch.set_num_interop_threads({})"),
    # Torch has no getter, but flushing affects Python's own floats as well.
    Switch("flush_denormal", "float('2.3e-308') / 2 == 0.0", "torch.set_flush_denormal({})"),
    Switch("detect_anomaly", "torch.is_anomaly_enabled()", "torch.autograd.set_detect_anomaly({})"),
)

# Written as contexts around the call, not as statements ahead of it: inputs are created outside.
DEFAULT_DEVICE, AUTOCAST_CACHE = "default_device", "autocast_cache"
CONTEXTS = (DEFAULT_DEVICE, AUTOCAST_CACHE)

Values = dict[str, Any]
_BY_NAME = {switch.name: switch for switch in SWITCHES}


def read_switches(evaluate: Callable[[str], Any]) -> Values:
    """Return the value of each switch that this torch has and can read. `evaluate` needs torch loaded."""
    values: Values = {}
    for switch in SWITCHES:
        try:
            value = evaluate(switch.read)
        except (AttributeError, RuntimeError):  # torch raises if its old and new interfaces were mixed
            continue
        if value is None or isinstance(value, (bool, int, float, str)):
            values[switch.name] = value
    return values


def changed_switches(now: Values, baseline: Values) -> tuple[tuple[str, Any], ...]:
    """Return (name, value) of each switch that differs from `baseline`, without implied switches.

    If the specific switches contradict a general switch, the general switch is left out instead.
    """
    changed = {name: value for name, value in now.items() if name in baseline and baseline[name] != value}
    for switch in SWITCHES:
        implied = switch.implies.get(now.get(switch.name))
        if implied is None:
            continue
        if all(now.get(name) == value for name, value in implied.items()):
            changed = {name: value for name, value in changed.items() if name not in implied}
        else:  # the specific switches were set one by one and are complete
            changed.pop(switch.name, None)
    return tuple(changed.items())


def implied_config(switches: tuple[tuple[str, Any], ...]) -> dict[tuple[str, str], Any]:
    """Return the configuration values that these switches set."""
    return {key: bool(value) for name, value in switches if name in _BY_NAME for key in _BY_NAME[name].sets}


def known(name: str) -> bool:
    """Tell whether a switch has this name."""
    return name in _BY_NAME or name in CONTEXTS


def statements(state: State) -> tuple[str, ...]:
    """Return the lines of source that set a Case's switches, except for contexts."""
    values = dict(state.switches)
    return tuple(switch.statement(values[switch.name]) for switch in SWITCHES if switch.name in values)


def contexts(state: State) -> tuple[str, ...]:
    """Return the source of the contexts around the call, the outermost first."""
    switches = dict(state.switches)
    contexts = []
    if state.inference:
        contexts.append("torch.inference_mode()")
        if state.grad:
            contexts.append("torch.enable_grad()")
    elif not state.grad:
        contexts.append("torch.no_grad()")
    if switches.get(DEFAULT_DEVICE) is not None:
        contexts.append(f"torch.device({literal(switches[DEFAULT_DEVICE])})")
    cache = "" if switches.get(AUTOCAST_CACHE, True) else ", cache_enabled=False"
    contexts += [f"torch.autocast({literal(device)}, dtype=torch.{dtype}{cache})" for device, dtype in state.autocast]
    return tuple(contexts)
