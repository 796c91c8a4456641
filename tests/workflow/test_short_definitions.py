"""A backend in the failing script that has a table of kernels: the repro has the kernel that fails, and no other."""

import os
import signal

import pytest

from minifier.data.settings import Settings
from minifier.errors import StoppedAtOnce
from minifier.process.progress import SILENT
from minifier.repro.source import spare_definitions

pytestmark = [pytest.mark.timeout(200), pytest.mark.usefixtures("processes")]

TABLED = """
    import operator

    import torch

    KERNELS = {}
    METHODS = {"contiguous": torch.Tensor.contiguous, "mean": torch.mean}


    def kernel_for(*targets):
        def add(kernel):
            for target in targets:
                KERNELS[target] = kernel
            return kernel

        return add


    @kernel_for(torch.relu)
    def relu(x):
        return x * (x > 0)


    @kernel_for(operator.add, torch.add)
    def add(a, b):
        return b + a


    @kernel_for(torch.softmax)
    def softmax(x, dim=-1):
        e = torch.exp(x)
        return e / e.sum(dim, keepdim=True)


    @kernel_for(torch.nn.functional.gelu)
    def gelu(x, approximate="none"):
        if approximate != "none":
            raise NotImplementedError(f"gelu with approximate={approximate!r}")
        return x * torch.sigmoid(1.702 * x)


    class Runner(torch.fx.Interpreter):
        def call_function(self, target, args, kwargs):
            return KERNELS.get(target, target)(*args, **kwargs)

        def call_method(self, target, args, kwargs):
            return METHODS[target](*args, **kwargs)


    def tabled(gm, example_inputs):
        return Runner(gm).run


    def model(x):
        hidden = torch.relu(x) + 1
        hidden = torch.nn.functional.gelu(hidden.contiguous()%s)
        return torch.softmax(hidden, dim=-1).mean(0)


    torch.manual_seed(0)
    x = torch.randn(4, 8)
    %s
"""
RAISES = TABLED % (', approximate="tanh"', "torch.compile(model, backend=tabled)(x)")
IS_WRONG = TABLED % ("", "torch.testing.assert_close(torch.compile(model, backend=tabled)(x), model(x))")
KERNEL = """
@kernel_for(torch.nn.functional.gelu)
def gelu(x, approximate="none"):
"""
RUNNER = """
class Runner(torch.fx.Interpreter):
    def call_function(self, target, args, kwargs):
        return KERNELS.get(target, target)(*args, **kwargs)


def tabled(gm, example_inputs):
"""


@pytest.mark.soak
@pytest.mark.parametrize("script", [IS_WRONG, RAISES], ids=["is wrong", "raises"])
def test_kernels_and_methods_that_the_failure_does_not_need_are_left_out(project, script):
    done = project.run(script)
    assert done.code == 0, done.stderr
    assert done.ops[1] == 1 and done.result["verified"] == {"runs": 1, "same": 1, "control": "passed"}
    assert KERNEL in done.repro and RUNNER in done.repro and "\nKERNELS = {}\n" in done.repro
    assert not any(name in done.repro for name in ("METHODS", "def relu", "def add(a", "def softmax", "operator"))
    assert done.result["passes"]["definitions"] == "fixpoint"


DIES_OF_LARGE_TENSORS = """
    import os

    import torch

    LIMITS = {"tanh": 64, "relu": 1024, "add": 4096, "mul": 4096, "sin": 64}


    def check(name, x):
        if x.numel() > LIMITS.get(name, 0):
            os._exit(7)


    class Runner(torch.fx.Interpreter):
        def call_function(self, target, args, kwargs):
            if target.__name__ in ("tanh", "relu"):
                check(target.__name__, args[0])
            return super().call_function(target, args, kwargs)


    def mine(gm, example_inputs):
        return Runner(gm).run


    torch.compile(lambda x: torch.tanh(torch.relu(x) * 2) + 1, backend=mine)(torch.randn(16, 8))
"""


def test_what_fails_in_another_way_without_a_part_keeps_it(project):
    """Without the entry the script fails with the same kind of failure, but for another reason."""
    done = project.run(DIES_OF_LARGE_TENSORS)
    assert done.code == 0 and '"tanh": 64' in done.repro and done.ops[1] == 1, done.stderr + done.repro
    assert '"sin"' not in done.repro, done.repro
    change = [line for line in (done.result["nearest"] or "").splitlines() if line.startswith(("+", "-"))]
    assert not [line for line in change if "LIMITS" in line or "def " in line], change


def test_ctrl_c_ends_the_search_and_the_second_the_run(forked, monkeypatch):
    def interrupts(*_):
        os.kill(os.getppid(), signal.SIGINT)
        signal.pause()

    def searched(interrupting):
        return spare_definitions.shorten_definitions(None, Settings(), SILENT, interrupting)

    def interrupted():
        told = []
        assert searched(lambda: told.append("interrupted")) is None and told == ["interrupted"]
        with pytest.raises(StoppedAtOnce):
            searched(lambda: os.kill(os.getpid(), signal.SIGINT))
        return True

    monkeypatch.setattr(spare_definitions, "_shorten", interrupts)
    assert forked(interrupted)
