"""Backends with state: a failure that depends on what the backend compiled or ran before the failing graph."""

import pytest

pytestmark = pytest.mark.timeout(280)

NET = """
class Net(torch.nn.Module):
    def __init__(self, size=8):
        super().__init__()
        self.norm, self.up, self.down = torch.nn.LayerNorm(size), torch.nn.Linear(size, 9), torch.nn.Linear(9, size)

    def forward(self, x):
        x = self.norm(x)
        x = x + torch.sigmoid(self.down(torch.nn.functional.silu(self.up(x))))
        return (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 1)


torch.manual_seed(0)
"""

SHAPES = """
import torch


class Cache:
    def __init__(self, room):
        self.room, self.entries = room, {}

    def __call__(self, gm, example_inputs):
        self.entries[str([tuple(value.shape) for value in example_inputs])] = gm
        if len(self.entries) > self.room:
            raise RuntimeError("no room for another entry")
        return gm.forward


torch._dynamo.register_backend(Cache(2), name="cache")
"""

COUNTING = """
import torch

count = 0


def counting(gm, example_inputs):
    def run(*args):
        global count
        count += 1
        if count == 2:
            raise RuntimeError("the workspace is in use")
        return gm.forward(*args)

    return run
"""

MOVING = """
import ctypes

import torch

made = []


def moving(gm, example_inputs):
    made.append(gm)
    number = len(made)
    return lambda *args: gm.forward(*args) if number == len(made) else ctypes.string_at(8)
"""

OVERWRITING = """
import torch

slots = {}


def overwriting(gm, example_inputs):
    slots.setdefault(len(list(gm.graph.nodes)), gm)  # two graphs of as many nodes share a slot
    return slots[len(list(gm.graph.nodes))].forward
"""


def test_the_third_shape_that_is_compiled(project):
    project.write(SHAPES, "cache.py")
    calls = "net = torch.compile(Net(), backend='cache', dynamic=False)\n"
    calls += "for n in range(2, 7):\n    net(torch.ones(n, 8))"
    done = project.run("import torch\nimport cache\n" + NET + calls)
    assert done.code == 0, done.stderr
    assert done.ops == (11, 1) and done.result["calls_ahead"] == 2 and done.result["level"] == "dynamo"
    assert done.repro.count("compiled(") == 3 and "dynamic=False" in done.repro
    assert done.result["verified"]["control"] == "passed"


@pytest.mark.usefixtures("soak")
def test_the_second_call_in_the_process(project):
    calls = "a, b = (torch.compile(Net(n), backend=counting) for n in (8, 6))\na(torch.ones(2, 8))\nb(torch.ones(2, 6))"
    done = project.run(COUNTING + NET + calls)
    assert done.code == 0, done.stderr
    assert done.ops[1] == 1 and "Net" not in done.repro
    assert "for _ in range(2):\n    compiled(x)" in done.repro, "two calls of one graph, at once"


@pytest.mark.usefixtures("soak")
def test_compiled_code_that_crashes_once_another_graph_was_compiled(project):
    calls = "a, b = (torch.compile(Net(n), backend=moving) for n in (8, 6))\n"
    calls += "a(torch.ones(2, 8))\nb(torch.ones(2, 6))\na(torch.ones(2, 8))"
    done = project.run(MOVING + NET + calls)
    assert done.code == 0, done.stderr
    assert done.ops[1] == 1 and done.result["calls_ahead"] == 1 and done.result["failure"]["kind"] == "signal"


@pytest.mark.usefixtures("soak")
def test_a_result_that_is_anothers(project):
    calls = "torch.compile(lambda x: x.sin().cos() + 1, backend=overwriting)(torch.randn(4))\n"
    calls += "torch.compile(lambda x: x.exp().tanh() * 2, backend=overwriting)(torch.randn(4))\n"
    done = project.run(OVERWRITING + calls)
    assert done.code == 0, done.stderr
    assert done.result["failure"]["stage"] == "compare" and done.result["calls_ahead"] == 1
