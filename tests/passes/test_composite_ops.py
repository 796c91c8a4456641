"""A composite op replaced by its parts."""

import pytest
from case_text import case_of, graph_of, show

from minifier.data.case import Node, Ref
from minifier.reduction.passes.composite import in_words_of_torch, with_decomposition

CASE = """
    x: float32[2]
    gelu: float32[2](storage=4) = torch.nn.functional.gelu(x)
    gelu_half = torch.exp(x)
    y = torch.add(gelu, gelu_half)
    return y,
"""
PARTS = """
    a: float32[2]
    half: float32[2](storage=9) = torch.mul(a, 0.5)
    twice = torch.mul(half, half)
    return twice,
"""


def test_parts_take_the_ops_place_under_names_of_their_own():
    case = case_of(CASE)
    found = with_decomposition(case, "gelu", graph_of(PARTS), ("x",))
    assert found is not None
    assert show(found) == show(
        graph_of("""
        x: float32[2]
        gelu_half_ = torch.mul(x, 0.5)
        gelu = torch.mul(gelu_half_, gelu_half_)
        gelu_half = torch.exp(x)
        y = torch.add(gelu, gelu_half)
        return y,
        """)
    )
    assert found.graph.node("gelu").value == case.graph.node("gelu").value
    assert found.graph.node("gelu_half_").value.storage is None
    assert found.inputs == case.inputs


@pytest.mark.parametrize(
    ("parts", "operands"),
    [
        (PARTS.replace("return twice,", "return twice, half"), ("x",)),
        (PARTS.replace("return twice,", "return a,"), ("x",)),
        (PARTS.replace("torch.mul(half, half)", "half.mul(half)"), ("x",)),
        (PARTS, ()),
        (PARTS, ("x", "x")),
    ],
    ids=["two results", "nothing is computed", "a method", "too few operands", "too many"],
)
def test_an_op_without_such_parts_stays(parts, operands):
    assert with_decomposition(case_of(CASE), "gelu", graph_of(parts), operands) is None


def test_parts_are_called_by_torchs_names_where_it_has_them():
    graph = graph_of("""
        x: float32[2]
        a = torch.ops.aten.exp.default(x)
        b = torch.ops.aten.unknown.default(a)
        c = torch.other.ops.exp(b)
        return c,
    """)
    named = in_words_of_torch(graph, frozenset({"exp", "torch"}))
    assert [node.target for node in named.ops] == ["torch.exp", "torch.ops.aten.unknown.default", "torch.other.ops.exp"]
    assert named.node("a") == Node("a", "call_function", "torch.exp", (Ref("x"),), {}, graph.node("a").value)
