"""Symbolic sizes as they are captured: which, and from where."""

import pytest
import torch

from minifier.data.case import Ref, ScalarInput, Symbolic
from minifier.torch_side.fx.graphs import read_graph
from minifier.torch_side.fx.tensors import TensorFile
from minifier.torch_side.torch_private.graphs import mark_static

pytestmark = pytest.mark.timeout(120)

HEAD = """
import oddlib, torch

def f(x, y):
    z = torch.cat([x, y])
    return torch.tanh(z).view(z.shape[0] * z.shape[1]) * x.shape[0]

"""


def case_of(bureau, text, number=1):
    bureau.capture(HEAD + text)
    return bureau.case(number)


def sizes(case):
    return {
        item.name: item.symbol if isinstance(item, ScalarInput) else (item.meta.shape, item.meta.symbols)
        for item in case.inputs
    }


def test_mark_dynamic(bureau):
    text = """
x = torch.ones(4, 3)
torch._dynamo.mark_dynamic(x, 0)
torch.compile(f, backend='oddlib_symbol')(x, torch.ones(5, 3))
"""
    case = case_of(bureau, text)
    assert case.symbolic is Symbolic.MARKED and case.backend.dynamic is None
    assert sizes(case) == {"s77": "s77", "l_x_": ((4, 3), ("s77", None)), "l_y_": ((5, 3), ())}


def test_a_marked_size_beside_a_number_that_changed_is_automatic(bureau):
    text = """
compiled = torch.compile(lambda x, n: torch.tanh(x * n), backend='oddlib_symbol')
compiled(torch.ones(4, 3), 2)
x = torch.ones(4, 3)
torch._dynamo.mark_dynamic(x, 0)
compiled(x, 3)
"""
    case = case_of(bureau, text, 2)
    numbers = {item.name: (item.value, item.symbol) for item in case.inputs if isinstance(item, ScalarInput)}
    assert case.symbolic is Symbolic.AUTOMATIC
    assert numbers["l_n_"][0] == 3 and len({symbol for _, symbol in numbers.values()}) == 2


def test_a_symbolic_number_inside_the_graph_becomes_the_node_that_it_is():
    from real_graphs import compiled_graphs

    (captured,) = compiled_graphs(lambda x: x.reshape(x.shape[0] * 3) * 2, torch.ones(4, 3), dynamic=True)
    module = captured.module
    number = next(n for n in module.graph.nodes if isinstance(n.meta.get("example_value"), torch.SymInt))
    reshape = next(n for n in module.graph.nodes if n.target == "reshape")
    reshape.args = (reshape.args[0], number.meta["example_value"])
    graph = read_graph(module, TensorFile())
    assert graph.node(reshape.name).args[1] == Ref(number.name)


def test_a_dimension_that_is_marked_static_is_fixed_under_dynamic_true():
    from real_graphs import compiled_graphs

    x = torch.ones(4, 3)
    mark_static(x, [1])
    (captured,) = compiled_graphs(torch.sin, x, dynamic=True)
    shape = captured.module.graph.find_nodes(op="placeholder")[-1].meta["example_value"].shape
    assert [type(size) for size in shape] == [torch.SymInt, int]
