"""Ops in the bodies of higher-order ops."""

from dataclasses import replace

import pytest
from case_text import case_of, graph_of, show

from minifier.data.case.graph import Module
from minifier.reduction.passes.operands import alike, bodies, body_at, with_body, without_ops

INNER = "a: float32[2]\nb = torch.sin(a)\nreturn b,"
MIDDLE = "x: float32[2]\ninner = get_attr(deep_0)\ny = torch.ops.higher_order.wrap(inner, x)\nreturn y,"
OUTER = "x: float32[2]\ninner = get_attr(wrap_0)\ny = torch.ops.higher_order.wrap(inner, x)\nreturn y,"


def nested():
    """A graph that holds a graph that holds one, and a module that is no graph."""
    middle = graph_of(MIDDLE, bodies={"deep_0": INNER})
    case = case_of(OUTER)
    return replace(
        case, graph=replace(case.graph, modules={"wrap_0": Module("", graph=middle), "relu": Module("ReLU")})
    )


def test_bodies_are_listed_from_the_innermost_with_their_paths():
    case = nested()
    found = list(bodies(case.graph))
    assert [path for path, _ in found] == [("wrap_0", "deep_0"), ("wrap_0",)]
    assert all(body_at(case.graph, path) is body for path, body in found)
    assert body_at(case.graph, ()) is case.graph and show(found[0][1]) == show(graph_of(INNER))


def test_a_body_is_replaced_where_it_is_held():
    case, other = nested(), graph_of("a: float32[2]\nb = torch.cos(a)\nreturn b,")
    changed = with_body(case, ("wrap_0", "deep_0"), other)
    assert body_at(changed.graph, ("wrap_0", "deep_0")) is other
    assert with_body(changed, ("wrap_0", "deep_0"), graph_of(INNER)) == case
    assert with_body(case, (), other).graph is other


@pytest.mark.parametrize(
    ("value", "is_alike"),
    [
        ("float32[2]", True),
        ("float32[2](requires_grad=True, storage=3)", True),
        ("float32[3]", False),
        ("float64[2]", False),
        ('float32[2](device="meta")', False),
        ('float32[2 @ "s0"]', False),
        ("5", False),
    ],
)
def test_values_of_one_shape_dtype_and_device_are_alike(value, is_alike):
    graph = graph_of(f"x: float32[2]\ny: {value}\nn: 5\nreturn x,")
    assert alike(graph.node("x"), graph.node("y")) is alike(graph.node("y"), graph.node("x")) is is_alike
    assert not alike(graph.node("n"), graph.node("n"))


BODY = """
    x: float32[2]
    y: float32[3]
    z: float32[2]
    a = torch.sin(x)
    b: float32[3] = torch.pad(a, y)
    c: float32[2] = torch.cut(b, a)
    return c,
"""


@pytest.mark.parametrize(
    ("kept", "text"),
    [
        ("abc", BODY),
        ("bc", BODY.replace("    a = torch.sin(x)\n", "").replace("(a, y)", "(x, y)").replace("(b, a)", "(b, x)")),
        ("ac", BODY.replace("    b: float32[3] = torch.pad(a, y)\n", "").replace("(b, a)", "(y, a)")),
        ("ab", BODY.replace("    c: float32[2] = torch.cut(b, a)\n", "").replace("return c", "return a")),
        ("a", "x: float32[2]\ny: float32[3]\nz: float32[2]\na = torch.sin(x)\nreturn a,"),
    ],
)
def test_an_operand_of_the_same_shape_stands_in_and_unread_ops_go(kept, text):
    assert show(without_ops(graph_of(BODY), kept)) == show(graph_of(text))


def test_an_input_stands_in_where_no_operand_can():
    text = "x: float32[2]\ny: float32[3]\na: float32[3] = torch.pad(x)\nb = torch.neg(a)\nreturn b,"
    without = "x: float32[2]\ny: float32[3]\nb = torch.neg(y)\nreturn b,"
    assert show(without_ops(graph_of(text), "b")) == show(graph_of(without))


def test_an_op_that_nothing_can_stand_in_for_stays():
    text = "x: float32[2]\na: float32[5] = torch.pad(x)\nb: float32[2] = torch.cut(a)\nreturn b,"
    assert show(without_ops(graph_of(text), "b")) == show(graph_of(text))


def test_ops_in_place_and_unread_ops_that_are_kept_stay():
    text = "x: float32[2]\na = torch.sin(x)\nb = a.add_(1)\nc = torch.cos(x)\nd = torch.exp(x)\nreturn a,"
    assert show(without_ops(graph_of(text), "abc")) == show(graph_of(text.replace("d = torch.exp(x)\n", "")))


def test_an_op_that_nothing_reads_any_more_goes():
    text = "x: float32[2]\na: float32[5] = torch.pad(x)\nb: float32[2] = torch.cut(a)\nc = torch.exp(x)\nreturn c,"
    assert show(without_ops(graph_of(text), "bc")) == show(graph_of(text))
    assert show(without_ops(graph_of(text), "c")) == show(graph_of("x: float32[2]\nc = torch.exp(x)\nreturn c,"))


def test_what_is_held_for_nobody_goes():
    text = """
        x: float32[2]
        i = get_attr(w_0)
        j = get_attr(t_0)
        a = torch.ops.higher_order.wrap(i, x, j)
        b = torch.sin(x)
        return b,
    """
    graph = replace(graph_of(text, bodies={"w_0": INNER}), attributes={"t_0": "key", "x": "no attribute is read"})
    whole = without_ops(graph, "ab")
    assert (set(whole.modules), whole.attributes) == ({"w_0"}, {"t_0": "key"})
    left = without_ops(graph, "b")
    assert (left.modules, left.attributes) == ({}, {}) and "i" not in left.index
