"""The state of a process that belongs to a Case: torch's global switches and environment variables."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from minifier.data.case.case import State
from minifier.data.case.literals import literal
from minifier.data.torch_names import DETERMINISTIC


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


# Prefixes of torch and its compilers. A fresh interpreter that runs a repro has none of these variables.
OWN = ("TORCH", "PYTORCH", "TRITON", "AOT_")
# Prefixes of the libraries below torch. These variables stay unless a Case sets them.
_LIBRARIES = re.compile("(?:OMP|KMP|GOMP|MKL|DNNL|ONEDNN|ATEN|CUBLAS|CUDNN|NVIDIA_TF32|CUDA_LAUNCH)_")
# Variables that only direct output, and so do not cause failures.
_OF_OUTPUT = re.compile(
    r"TORCHDYNAMO_(?:REPRO|EXTENDED)_|TORCH_(?:LOGS|TRACE|SHOW_|COMPILE_DEBUG)|TORCHELASTIC_"
    r"|.*_(?:DIR|HOME|PATH|FILE|FOLDER|ROOT|LOGS?|LOG_LEVEL|OUT|VERBOSE|DISPLAY_ENV)$"
)
# Variables that belong to one process, or that every process of this tool sets for itself.
_OF_PROCESS = frozenset({"PWD", "OLDPWD", "SHLVL", "COLUMNS", "LINES", "TMPDIR", "XDG_CACHE_HOME"})
# Variables of every shell, and search paths for programs, drivers and compilers.
_ORDINARY = frozenset(
    {"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "LANGUAGE", "TZ", "TMPDIR", "HOSTNAME", "PWD", "CC"}
    | {"OLDPWD", "SHLVL", "_", "EDITOR", "PAGER", "LS_COLORS", "LESSOPEN", "LESSCLOSE", "MAIL", "DISPLAY", "PYTHONPATH"}
    | {"CXX", "PYTHONHOME", "VIRTUAL_ENV", "CONDA_PREFIX", "SSL_CERT_FILE", "SSL_CERT_DIR"}
)  # fmt: skip
_MACHINE_PREFIXES = ("LC_", "LD_", "XDG_", "CUDA_", "NVIDIA_", "ROCR_", "ROCM_", "HIP_", "HSA_")
# Prefixes of variables that change torch, Python or this tool; no fresh interpreter gets them.
_SCRUBBED = (*OWN, "MINIFY", "PYTHON")
_MAX_VALUE_CHARACTERS = 200  # in a script
# Parts of a name that suggest a secret: anywhere, as the end of a word, and as a whole word.
_SECRET = re.compile(
    r"TOKEN|SECRET|PASSW|PASSPHRASE|PASSCODE|PGPASS|CREDENTIAL|(?:API|ACCESS|PRIVATE)_?KEY|COOKIE|WEBHOOK|SESS(?:ION|ID)|"
    r"AUTHORIZATION|SIGNATURE|"
    r"(?<!BY)(?<!COM)PASS(?![A-Z])|PWD(?![A-Z])|(?<!MON)(?<!HOT)KEYS?(?![A-Z])|DSN(?![A-Z])|"
    r"(?<![A-Z])(?:O?AUTH2?|PAT|JWT|OTP|PIN|NETRC)(?![A-Z])",
    re.IGNORECASE,
)
MIN_SECRET_CHARACTERS = 6  # a shorter value is a switch or a word


def is_secret(name: str) -> bool:
    """Tell whether the variable's name suggests a secret."""
    return _SECRET.search(name) is not None


def belongs(name: str, value: str) -> bool:
    """Tell whether a variable is part of a Case's state. Paths, secrets and log settings are not."""
    if _OF_OUTPUT.match(name) or not (name.startswith(OWN) or _LIBRARIES.match(name)):
        return False
    return "/" not in value and not (is_secret(name) and len(value) >= MIN_SECRET_CHARACTERS)


def variables(environment: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Return (name, value) of the variables that belong to a Case, sorted."""
    return tuple(sorted((name, value) for name, value in environment.items() if belongs(name, value)))


def assignments(pairs: tuple[tuple[str, str], ...]) -> str:
    """Return the variables as a shell sets them ahead of a command: `A=1 B=2`."""
    return " ".join(f"{name}={value}" for name, value in pairs)


def own(pairs: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    """Return the variables of torch and its compilers only."""
    return tuple((name, value) for name, value in pairs if name.startswith(OWN))


def ordinary(environment: Mapping[str, str], more: Collection[str] | None = ()) -> dict[str, str]:
    """Return the variables of a fresh interpreter: the ordinary ones of a shell, and `more`.

    With `more` None, all except settings of torch, Python and this tool."""
    return {
        name: value
        for name, value in environment.items()
        if name in _ORDINARY
        or (name.startswith(_MACHINE_PREFIXES) and not belongs(name, value))
        or (not name.startswith(_SCRUBBED) and (more is None or name in more))
    }


def others(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names of the variables that a fresh interpreter gets only on request."""
    return tuple(sorted(ordinary(environment, None).keys() - ordinary(environment).keys()))


def set_later(environment: Mapping[str, str]) -> dict[str, str] | None:
    """Return the variables that an interpreter with the ordinary ones still lacks once torch is imported.

    None if a library below torch reads one of them when it is loaded.
    """
    missing = {name: environment[name] for name in others(environment)}
    return None if any(map(_LIBRARIES.match, missing)) else missing


def may_be_written(name: str, value: str) -> bool:
    """Tell whether a script may show the variable: no path, no secret, no long text."""
    is_private = "/" in value or is_secret(name)
    return not is_private and len(value) <= _MAX_VALUE_CHARACTERS and value.isprintable()


def may_be_set(name: str) -> bool:
    """Tell whether probes get a variable that the script set: all but those that this tool sets or removes."""
    return not (name in _OF_PROCESS or name.startswith((*_SCRUBBED, "_")))


def of_script(pairs: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    """Return the variables that are in a Case because the script set them, whatever they are for."""
    return tuple((name, value) for name, value in pairs if not belongs(name, value))
