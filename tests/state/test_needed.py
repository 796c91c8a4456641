"""A script that sets everything there is, and failures that each need one thing of it, or nothing: the repro
has that one thing."""

import pytest
from layers import sampled
from vocabulary import CASES, Bureau, in_child

from minifier.repro.emit.forms import Template
from minifier.repro.emit.repro import write_repro

pytestmark = [pytest.mark.timeout(200), pytest.mark.usefixtures("processes")]

# What fails only in one state, and the line of the repro that makes it.
NEEDED = {
    "always": None,
    "no_grad": "with torch.no_grad():",
    "autocast without cache": 'with torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False):',
    "default dtype": "torch.set_default_dtype(torch.float64)",
    "deterministic": "torch.use_deterministic_algorithms(True, warn_only=True)",
    "threads": "torch.set_num_threads(3)",
    "dynamo's config": "torch._dynamo.config.recompile_limit = 3",
    "inductor's config": "torch._inductor.config.triton.cudagraphs = True",
    "own nested config": "oddlib.settings.schedule.greedy = True",
    "inference mode": "with torch.inference_mode():",
    "device": 'with torch.device("meta"):',
}

EVERYTHING = """
import os
import torch
import torch._dynamo.config
import torch._inductor.config
import oddlib
from oddlib import settings

os.environ["TORCH_ODDLIB_FUSE"] = "2"
torch.set_num_interop_threads(3)
torch.set_num_threads(3)
torch.set_default_dtype(torch.float64)
torch.use_deterministic_algorithms(True, warn_only=True)
torch.utils.deterministic.fill_uninitialized_memory = False
torch.set_float32_matmul_precision("high")
torch.backends.mkldnn.enabled = False
torch.backends.mkldnn.deterministic = True
torch.backends.cuda.enable_flash_sdp(False)
torch.backends.cudnn.benchmark = True
torch.backends.opt_einsum.enabled = True
torch.backends.opt_einsum.strategy = "optimal"
torch.backends.mha.set_fastpath_enabled(False)
torch.set_flush_denormal(True)
torch.autograd.set_detect_anomaly(True)
torch._dynamo.config.recompile_limit = 3
torch._dynamo.config.cache_size_limit = 3
torch._inductor.config.triton.cudagraphs = True
settings.unrolling = 16
settings.fuse = True
settings.schedule.greedy = True


def f(x):
    return torch.cos(torch.tanh(torch.sin(x)))


for when in KINDS:
    torch._dynamo.reset()
    x = torch.randn(2, 3)
    try:
        with torch.inference_mode(), torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False):
            with torch.device("meta") if when == "device" else torch.device("cpu"):
                torch.compile(f, backend="oddlib_when", options={"when": when})(x)
    except Exception as error:
        print(when, error)
"""
KINDS = [*NEEDED, "variable"]


@pytest.fixture(scope="module")
def everything(tmp_path_factory):
    """The graphs of a script that sets all of it, one for each kind, all of which failed."""
    bureau = Bureau(tmp_path_factory.mktemp("everything"))
    captured = bureau.capture(EVERYTHING.replace("KINDS", repr(KINDS)))
    assert captured.graphs == len(KINDS), captured
    return bureau


def shown(repro, folder):
    """The text of the exception that the repro ends with, run in a process that is set to nothing."""

    def work():
        import sys

        sys.path.insert(0, str(CASES))
        path = repro.write(folder / "repro")
        try:
            exec(compile(repro.text, str(path), "exec"), {"__name__": "__main__", "__file__": str(path)})
        except Exception as error:
            return str(error)
        return None

    return in_child(work, folder)


# The rest are the same statements that the probes have executed.
EXECUTED = ("always", "autocast without cache", "default dtype", "own nested config", "inference mode", "device")


@pytest.mark.parametrize("kind", sampled(NEEDED, 11))
def test_of_all_that_a_script_sets_the_repro_has_what_the_failure_needs(everything, kind, tmp_path):
    summary, case = everything.reduce(KINDS.index(kind) + 1)
    assert summary.one_minimal and len(case.graph.ops) == 1, summary
    repro = write_repro(case, Template.COMPILE_FUNCTION)
    lines = [line.strip() for line in repro.text.split("\n")]
    present = {line for line in NEEDED.values() if line in lines}
    assert present == ({NEEDED[kind]} if NEEDED[kind] else set()), repro.text
    state = case.state
    assert len(state.config) + len(state.switches) + len(state.environment) <= 1, state
    if kind in EXECUTED:
        assert "no lowering for tanh" in str(shown(repro, tmp_path))


def test_a_variable_that_the_script_sets_is_found_by_a_backend_that_looks_at_it(everything):
    _summary, case = everything.reduce(KINDS.index("variable") + 1)
    assert case.state.environment == (("TORCH_ODDLIB_FUSE", "2"),)
    assert case.state.config == case.state.switches == ()
