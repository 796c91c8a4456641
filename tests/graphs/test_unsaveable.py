"""What has no readable form is refused, with the node and the thing by name."""

import sys

import pytest
import torch

from minifier.errors import CannotSave
from minifier.torch_side.fx.arguments import path_of, resolve
from minifier.torch_side.fx.graphs import read_graph
from minifier.torch_side.fx.script_objects import define
from minifier.torch_side.fx.tensors import TensorFile


def graph_calling(function, *args):
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    call = graph.call_function(function, (x,), name="called")
    graph.output(call)
    module = torch.fx.GraphModule(torch.nn.Module(), graph)
    call.args = (x, *args)  # torch cannot write source for all of these either
    return module


def refused(module):
    with pytest.raises(CannotSave) as caught:
        read_graph(module, TensorFile())
    return str(caught.value)


def in_main(x):
    return x


in_main.__module__ = "__main__"


def test_a_function_of_the_script():
    assert "in_main, which the failing script holds under no name of its own" in refused(graph_calling(in_main))


def test_a_function_of_definitions_that_are_run_again_is_the_new_one(monkeypatch):
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    for number in (1, 2):
        define(f"def chosen(): return {number}")
        assert resolve("__main__:chosen")() == number


def test_a_lambda_and_a_closure():
    assert "<lambda>, which no import statement reaches" in refused(graph_calling(lambda x: x))

    def inner(x):
        return x

    assert "inner, which no import statement reaches" in refused(graph_calling(inner))


@pytest.mark.parametrize("value", [b"bytes", torch.Generator(), object()], ids=["bytes", "generator", "object"])
def test_an_argument(value):
    said = refused(graph_calling(torch.add, value))
    assert "node called of the graph" in said and type(value).__name__ in said


class Counting(torch.nn.Module):
    """Importable, with an attribute that no file can hold."""

    def __init__(self):
        super().__init__()
        self.log = open("/dev/null")  # noqa: SIM115 - the open file is the point

    def forward(self, x):
        return x


class OnlyCounting(torch.fx.Tracer):
    def is_leaf_module(self, m, name):
        return True


def module_graph(child):
    root = torch.nn.Sequential(child)
    return torch.fx.GraphModule(root, OnlyCounting().trace(root))


def test_a_module_with_an_odd_attribute_or_a_hook():
    assert "0.log" in refused(module_graph(Counting()))
    hooked = torch.nn.Linear(2, 2)
    hooked.register_forward_hook(lambda *_: None)
    assert "forward hooks" in refused(module_graph(hooked))


FUNCTIONS = {
    torch.tanh: "torch.tanh",
    torch._C._nn.gelu: "torch.nn.functional.gelu",
    torch.functional.einsum: "torch.einsum",
    torch._C._fft.fft_rfft: "torch.fft.rfft",
    torch.nn.functional.layer_norm: "torch.nn.functional.layer_norm",
    torch.ops.aten.add.Tensor: "torch.ops.aten.add.Tensor",
    torch.ops.aten.mul: "torch.ops.aten.mul",
    torch.ops.higher_order.cond: "torch.ops.higher_order.cond",
}


@pytest.mark.parametrize(("function", "path"), FUNCTIONS.items(), ids=FUNCTIONS.values())
def test_functions_are_named_as_a_person_would(function, path):
    assert resolve(path_of(function)) is function
    if path != "torch.fft.rfft":
        assert path_of(function) == path


@pytest.mark.parametrize("path", ["no_such_module.f", "torch.no_such_thing", "torch.nn:Missing.f"])
def test_a_path_to_nothing_is_an_import_error(path):
    with pytest.raises((ImportError, AttributeError, ValueError)):
        resolve(path)
