"""Failures of a later call, with other sizes than those of the compilation."""

import pytest
from clock import SLEEP

BAKES = """
import torch

def bakes(gm, example_inputs):
    '''Takes the sizes that it compiles with for constants, as a compiler without symbolic sizes does.'''
    for node in gm.graph.nodes:
        sizes = [each for each in node.all_input_nodes if isinstance(each.meta["example_value"], torch.SymInt)]
        for size in sizes if node.op != "output" else ():
            node.args = torch.fx.map_arg(node.args, lambda n: n.meta["example_value"].node.hint if n in sizes else n)
    gm.recompile()
    return gm.forward

@torch.compile(backend=bakes, dynamic=True)
def f(x, w):
    h = torch.tanh(x @ w) + 1
    h = h.view(x.shape[0] * 2, 3)
    return torch.relu(h).sum(1)

w = torch.ones(4, 6)
f(torch.ones(5, 4), w)
f(torch.ones(9, 4), w)
"""


@pytest.mark.timeout(300)
def test_a_size_that_was_taken_for_a_constant(minify):
    done = minify(BAKES, timeout=250)
    assert done.code == 0, done.stderr
    assert (done.result["level"], done.result["ops_after"]) == ("dynamo", 1)
    assert done.result["verified"]["control"] == "passed"
    assert "# compiles it with this size" in done.repro and "compiled with another size" in done.repro


SWAPS = """
import threading
import time
import torch

class InBackground:
    '''Runs the graph itself until its thread has compiled it, without the slope.'''

    def __init__(self, gm):
        self.gm, self.compiled = gm, None
        threading.Thread(target=self.compile, daemon=True).start()

    def compile(self):
        SLEEP(0.05)
        graph, copies = torch.fx.Graph(), {}
        for node in self.gm.graph.nodes:
            copies[node] = graph.node_copy(node, copies.__getitem__)
            if node.target is torch.nn.functional.leaky_relu:
                copies[node].args = copies[node].args[:1]
        self.compiled = torch.fx.GraphModule(self.gm, graph)

    def __call__(self, *args):
        return (self.compiled or self.gm)(*args)

def background(gm, example_inputs):
    return InBackground(gm)

@torch.compile(backend=background)
def f(x):
    for _ in range(6):
        x = torch.tanh(x + 0.5) * 3
    return torch.nn.functional.leaky_relu(x - 1, 0.4).sum(1)

with torch.no_grad():
    for _ in range(30):
        f(torch.linspace(-2, 2, 40).view(8, 5))
        SLEEP(0.01)
""".replace("SLEEP", SLEEP)


@pytest.mark.timeout(300)
def test_compiled_code_that_is_swapped_in_after_a_moment(minify):
    done = minify(SWAPS, timeout=250)
    assert done.code == 0, done.stderr
    assert (done.result["ops_after"], done.result["verified"]["control"]) == (1, "passed")
    assert SLEEP in done.repro and "for attempt" not in done.repro
