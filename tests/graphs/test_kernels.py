"""Launches of Triton kernels, read and built with kernels that are as Triton's to Dynamo's table. Those of Triton run
under `make test-backends`."""

import sys
from types import ModuleType, SimpleNamespace

import pytest
import torch

from minifier.data.case.graph import Ref
from minifier.data.case.values import Imported
from minifier.errors import CannotSave
from minifier.torch_side.fx.graphs import build_graph, read_graph
from minifier.torch_side.torch_private.inductor import LAUNCH, kernel_arguments, kernel_of, numbered_launch


class Kernel:
    arg_names = ("x_ptr", "out_ptr", "n", "BLOCK")

    def __init__(self, module, configs=0):
        self.fn = SimpleNamespace(__module__=module, __qualname__="doubled")
        if configs:
            self.configs = [None] * configs


@pytest.fixture
def module(monkeypatch):
    made = ModuleType("odd_kernels")
    made.doubled, made.tuned = Kernel("odd_kernels"), Kernel("odd_kernels", configs=2)
    monkeypatch.setitem(sys.modules, "odd_kernels", made)
    return made


def launching(kernel, grid=((2, 1, 1),), **more):
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    out = graph.call_function(torch.empty_like, (x,))
    arguments = {"BLOCK": 128, "n": 256, "num_warps": 4, "out_ptr": out, "x_ptr": x}
    kwargs = {**numbered_launch(kernel, arguments, list(grid)), **more}
    graph.create_node("call_function", LAUNCH, (), kwargs, "launch")
    graph.output((out,))
    return torch.fx.GraphModule(torch.nn.Module(), graph)


def test_a_launch_says_which_kernel_gets_what(module):
    node = read_graph(launching(module.doubled), None).node("launch")
    assert node.args == () and node.kwargs == {
        "kernel": Imported("odd_kernels:doubled"),
        "grid": (2, 1, 1),
        "arguments": {"x_ptr": Ref("x"), "out_ptr": Ref("empty_like"), "n": 256, "BLOCK": 128, "num_warps": 4},
    }


@pytest.mark.parametrize(("name", "grids"), [("doubled", 1), ("tuned", 2)])
def test_a_launch_is_built_as_dynamo_has_it(module, name, grids):
    kernel = getattr(module, name)
    graph = read_graph(launching(kernel, [(2, 1, 1)] * grids), None)
    (node,) = (node for node in build_graph(graph, None).graph.nodes if node.target is LAUNCH)
    assert kernel_of(node.kwargs) is kernel and len(node.kwargs["grid"]) == grids
    assert list(node.kwargs["kwargs"]) == ["x_ptr", "out_ptr"]
    assert list(kernel_arguments(node.kwargs)) == ["x_ptr", "out_ptr", "n", "BLOCK", "num_warps"]


def test_a_kernel_under_no_name(module):
    with pytest.raises(CannotSave, match="the Triton kernel doubled, which no name of odd_kernels leads to"):
        read_graph(launching(Kernel("odd_kernels")), None)


def test_what_a_launch_has_that_no_source_says(module):
    with pytest.raises(CannotSave, match="whose grid depends on the configuration"):
        read_graph(launching(module.tuned, [(2, 1, 1), (4, 1, 1)]), None)
    with pytest.raises(CannotSave, match="TMA descriptors"):
        read_graph(launching(module.doubled, tma_descriptor_metadata={"x_ptr": ("stable", ([2],))}), None)
