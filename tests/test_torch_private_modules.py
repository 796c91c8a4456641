"""Compiling modules where they are called."""

import pytest
import torch

from minifier import torch_private as private


class Nested(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Tanh())

    def forward(self, x):
        return self.inner(x) + 1


@pytest.fixture
def graphs():
    """The graphs that a backend gets while calls of modules are compiled; the backend calls its graph module."""
    seen = []

    def backend(gm, inputs):
        seen.append([node.target for node in gm.graph.nodes if node.op == "call_function"])
        return lambda *args: gm(*args)

    end = private.compile_module_calls(lambda module: torch.compile(module, backend=backend))
    yield seen
    end()
    assert torch.nn.Module._compiled_call_impl is None
    torch._dynamo.reset()


def test_a_module_that_is_called_is_one_graph_with_those_in_it(graphs):
    module, x = Nested(), torch.randn(3)
    assert torch.equal(module(x), x.relu().tanh() + 1) and torch.equal(module(x), x.relu().tanh() + 1)
    assert len(graphs) == 1 and len(graphs[0]) == 3


def test_each_module_has_a_graph_of_its_own(graphs):
    x = torch.randn(3)
    torch.nn.Tanh()(torch.nn.ReLU()(x))
    assert [len(graph) for graph in graphs] == [1, 1]


def test_what_the_module_itself_compiled_stays(graphs):
    module = torch.nn.Tanh()
    module.compile(backend="eager")
    module(torch.randn(3))
    assert not graphs
