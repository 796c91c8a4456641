"""The table of switches, and the variables that belong to a Case."""

import pytest
import torch

from minifier.capturing.process_state import switches_now
from minifier.data.case import State
from minifier.data.case.switches import SWITCHES, changed_switches, contexts, implied_config, variables
from minifier.reduction.probe.prepared_case import in_modes, set_globals

OTHER = {  # a value that each switch does not have by itself
    "deterministic_algorithms": "warn", "utils.deterministic.fill_uninitialized_memory": False,
    "backends.fp32_precision": "ieee", "float32_matmul_precision": "medium", "backends.cudnn.benchmark_limit": 7,
    "backends.opt_einsum.enabled": True, "backends.opt_einsum.strategy": "optimal", "num_threads": 5,
    "num_interop_threads": 5, "flush_denormal": True, "detect_anomaly": True,
}  # fmt: skip


def other(name, value):
    if name in OTHER:
        return OTHER[name]
    if name.endswith("fp32_precision"):
        return "ieee" if value != "ieee" else "tf32"
    if name == "backends.quantized.engine":
        return next(e for e in torch.backends.quantized.supported_engines if e not in (value, "none"))
    assert isinstance(value, bool), f"no other value for {name} is known to this test"
    return not value


def test_every_switch_can_be_read_and_set_and_read_again(forked):
    """In a process of its own each."""

    def alone(switch):
        def work():
            before = switches_now()
            wanted = other(switch.name, before[switch.name])
            if switch.name == "backends.opt_einsum.strategy":
                torch.backends.opt_einsum.enabled = True
                before = switches_now()
            set_globals(State(switches=((switch.name, wanted),)))
            now = switches_now()
            assert now[switch.name] == wanted, switch
            return changed_switches(now, before), wanted

        return work

    for switch in SWITCHES:
        if not torch.backends.opt_einsum.is_available() and "opt_einsum" in switch.name:
            continue
        changed, wanted = forked(alone(switch))
        assert changed == ((switch.name, wanted),), switch.name


def test_one_setting_is_one_switch():
    """Setting the precision of matrix products sets that of each library."""
    plain = {"float32_matmul_precision": "highest", "backends.cuda.matmul.fp32_precision": "none"}
    plain["backends.mkldnn.matmul.fp32_precision"] = "none"
    high = {name: "tf32" for name in plain} | {"float32_matmul_precision": "high"}
    assert changed_switches(high, plain) == (("float32_matmul_precision", "high"),)
    alone = {**plain, "backends.cuda.matmul.fp32_precision": "tf32", "float32_matmul_precision": "high"}
    assert changed_switches(alone, plain) == (("backends.cuda.matmul.fp32_precision", "tf32"),)
    assert changed_switches(plain, plain) == ()
    assert implied_config((("deterministic_algorithms", "warn"),)) == {
        ("torch._inductor.config", "deterministic"): True
    }


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (State(), ()),
        (State(grad=False), ("torch.no_grad()",)),
        (State(grad=False, inference=True), ("torch.inference_mode()",)),
        (State(inference=True), ("torch.inference_mode()", "torch.enable_grad()")),
        (
            State(autocast=(("cpu", "bfloat16"),), switches=(("autocast_cache", False), ("default_device", "meta"))),
            ('torch.device("meta")', 'torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False)'),
        ),
    ],
)
def test_contexts_say_how_the_call_was_made(state, expected):
    assert contexts(state) == expected
    with in_modes(state):
        assert torch.is_grad_enabled() is state.grad
        assert torch.is_inference_mode_enabled() is state.inference
        assert torch.is_autocast_enabled("cpu") is bool(state.autocast)
        assert torch.is_autocast_cache_enabled() is not bool(state.autocast)
        assert torch.zeros(1).device.type == ("meta" if state.switches else "cpu")


def test_only_variables_that_torch_and_compilers_read_belong_to_a_case():
    kept = {
        "TORCHINDUCTOR_MAX_AUTOTUNE": "1", "TRITON_INTERPRET": "1", "PYTORCH_CUDA_ALLOC_CONF": "a:1",
        "OMP_NUM_THREADS": "2",
    }  # fmt: skip
    left = {
        "HOME": "x", "TORCH_HOME": "x", "TORCHINDUCTOR_CACHE_DIR": "x", "TORCH_EXTENSIONS_DIR": "x", "TORCH_TRACE": "x",
        "TORCH_LOGS": "+dynamo", "TORCHDYNAMO_REPRO_AFTER": "dynamo", "TORCH_HUB_TOKEN": "ab3x9k", "http_proxy": "x",
        "TORCH_LIBRARY": "/home/me/libtorch.so", "TORCHELASTIC_RUN_ID": "3", "PYTHONPATH": "x",
    }  # fmt: skip
    assert dict(variables({**kept, **left})) == kept
