"""Modules that are compiled where they are called, as for a script that compiles nothing itself."""

import pytest
import torch

from minifier.torch_side.torch_private import dynamo


class Nested(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Tanh())

    def forward(self, x):
        return self.inner(x) + 1


@pytest.fixture
def graphs():
    """The graphs that a backend gets; it calls its graph module."""
    seen = []

    def backend(gm, inputs):
        seen.append(gm.graph)
        return lambda *args: gm(*args)

    end = dynamo.compile_module_calls(lambda module: torch.compile(module, backend=backend))
    yield seen
    end()
    assert torch.nn.Module._compiled_call_impl is None
    torch._dynamo.reset()


def test_a_module_that_is_called_is_one_graph_with_those_in_it_and_another_has_its_own(graphs):
    module, x = Nested(), torch.randn(3)
    assert torch.equal(module(x), x.relu().tanh() + 1) and torch.equal(module(x), x.relu().tanh() + 1)
    assert len(graphs) == 1
    torch.nn.Tanh()(torch.nn.ReLU()(x))
    assert len(graphs) == 3


def test_what_the_module_itself_compiled_stays(graphs):
    module = torch.nn.Tanh()
    module.compile(backend="eager")
    module(torch.randn(3))
    assert not graphs
