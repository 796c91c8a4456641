"""Which ops belong together, and what comes in at a cut: small graphs written down."""

from dataclasses import replace

import pytest
from case_samples import call, method
from case_text import case_of, graph_of
from pass_rows import is_shown

from minifier.case import Drawn, Level, Recorded, Ref, ScalarInput, State, Symbolic, TensorInput
from minifier.case.in_place import is_in_place
from minifier.case.ops import atoms, kind, parents, with_ops
from minifier.failure import Stage


def groups(text):
    """The atoms of more than one op."""
    return [group for group in atoms(graph_of(text)) if len(group) > 1]


AUGMENTED = "iadd isub imul itruediv ifloordiv imod ipow imatmul iand ior ixor ilshift irshift setitem delitem"


@pytest.mark.parametrize("name", AUGMENTED.split())
def test_operators_that_assign_are_in_place(name):
    assert is_in_place(call("a", f"operator.{name}", Ref("x"), 1))


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        (call("a", "torch.f", Ref("x"), inplace=1), False),
        (call("a", "torch.f", out=Ref("x")), True),
        (call("a", "operator.not_", Ref("x")), False),
        (method("a", "__iadd__", Ref("x")), False),
        (method("a", "_", Ref("x")), False),
        (replace(call("a", "weight_"), op="get_attr"), False),
    ],
)
def test_what_else_looks_like_in_place(node, expected):
    assert is_in_place(node) is expected


CHANGED = """
    x: float32[2]
    y: float32[2](storage=1) = torch.sin(x)
    row: float32[2](storage=1) = torch.select(y, 0)
    far: float32[2](storage=2) = torch.cos(x)
    add_: float32[2](storage=1) = y.add_(far)
    late: float32[2](storage=1) = torch.select(y, 1)
    both = torch.f(row, far, late)
    return both,
"""


def test_an_in_place_op_goes_with_earlier_views_that_are_read_after_it():
    assert groups(CHANGED) == [("y", "row", "add_")]
    assert groups(CHANGED.replace("torch.f(row,", "torch.f(")) == [("y", "add_")]
    assert (
        groups(CHANGED.replace("torch.f(row, far, late)", "torch.f(far)").replace("select(y, 1)", "select(x, 1)")) == []
    )


def test_what_is_written_into_is_told_by_out_and_by_the_first_tensor():
    out = CHANGED.replace("y.add_(far)", "torch.add(far, far, out=y)")
    assert groups(out) == [("y", "row", "add_")]
    assert groups(CHANGED.replace("y.add_(far)", "torch.add_(1)")) == []
    assert groups(CHANGED.replace("y: float32[2](storage=1)", "y: float32[2]")) == []
    assert groups(CHANGED.replace("y: float32[2](storage=1)", "y: (float32[2], 5)")) == [("y", "row", "add_", "late")]


@pytest.mark.parametrize("transform", ["vmap", "grad", "jvp"])
def test_a_transform_begins_and_ends_in_pairs_from_the_inside_out(transform):
    text = f"""
        x: float32[2]
        a: 1 = torch._C._functorch._{transform}_increment_nesting(2)
        b: 2 = torch._C._functorch._{transform}_increment_nesting(3)
        y = torch.sin(x)
        c: 3 = torch._C._functorch._{transform}_decrement_nesting()
        d: 4 = torch._C._functorch._{transform}_decrement_nesting()
        return y,
    """
    assert groups(text) == [("a", "d"), ("b", "c")]
    assert groups(text.replace(f"_{transform}_increment_nesting(2)", "other()")) == [("b", "c")]


@pytest.mark.parametrize(
    ("begin", "end"),
    [("_saved_tensors_hooks_disable", "_saved_tensors_hooks_enable"), ("_enter_dual_level", "_exit_dual_level")],
)
def test_other_pairs_of_switches_go_together(begin, end):
    text = f"x: float32[2]\na: 1 = torch.{begin}()\ny = torch.sin(x)\nb: 2 = torch.{end}()\nreturn y,"
    assert groups(text) == [("a", "b")]


def test_a_third_switch_of_grad_mode_begins_the_next_pair():
    switches = "".join(f"s{i}: {i} = torch._C._set_grad_enabled({i % 2 == 1})\n" for i in range(5))
    assert groups(f"x: float32[2]\n{switches}y = torch.sin(x)\nreturn y,") == [("s0", "s1"), ("s2", "s3")]


@pytest.mark.parametrize(
    ("value", "is_cut"),
    [
        ("float32[2]", True),
        ("5", True),
        ("(float32[2], 5)", False),
        ('float32[0 @ "u0"]', False),
        ('float32[3 @ "u0"]', True),
        ('None @ "u0"', False),
        ('4 @ "u0"', True),
        ('0 @ "u0"', True),
    ],
)
def test_tensors_and_numbers_can_be_cut_as_far_as_they_have_been_seen(value, is_cut):
    text = f"x: float32[2]\na: {value} = torch.f(x)\nb: float32[2] = torch.g(a)\nreturn b,"
    assert (groups(text) == []) is is_cut


DIAMOND = """
    x: float32[2]
    a = torch.sin(x)
    t: (float32[2], float32[2]) = torch.chunk(a, 2)
    p: float32[2] = operator.getitem(t, 0)
    b = torch.cos(x)
    q: float32[2] = operator.getitem(t, 1)
    c = torch.f(p, b, a, a)
    return c, q
"""


def test_parents_are_the_earlier_atoms_that_are_read_each_once():
    graph = graph_of(DIAMOND)
    found = atoms(graph)
    assert found == (("a",), ("t", "p", "q"), ("b",), ("c",))
    assert parents(graph, found) == ((), (0,), (), (0, 1, 2))


def test_kinds_tell_atoms_apart_by_targets_types_and_arity():
    graph = graph_of("""
        x: float32[2]
        a = torch.sin(x)
        b = torch.sin(a)
        other = torch.cos(b)
        wide: float64[2] = torch.sin(a)
        number: 5 = torch.sin(a)
        two = torch.sin(a, b)
        return two,
    """)
    kinds = [kind(graph, (name,)) for name in ("a", "b", "other", "wide", "number", "two")]
    assert kinds[0] == kinds[1] and len(set(kinds)) == 5
    assert kind(graph, ("a", "other")) != kind(graph, ("other", "a"))
    assert kind(graph, ("a", "b")) == f"{kinds[0]} {kinds[0]}"


CUT = """
    x: float32[2]
    a: float32[3](requires_grad=True) = torch.sin(x)
    n: 7 = torch.size(a)
    s: (float32[2], 5) = torch.f(x)
    y = torch.g(x, a, n, s)
    return y,
"""


@pytest.mark.parametrize(("stage", "source"), [(Stage.COMPILE, Drawn("zeros")), (Stage.RUN, Recorded("a"))])
@pytest.mark.parametrize("inference", [False, True])
def test_what_comes_in_at_a_cut(stage, source, inference):
    case = case_of(CUT, state=State(inference=inference))
    case = replace(case, failure=replace(case.failure, fingerprint=replace(case.failure.fingerprint, stage=stage)))
    x, a, n, s = with_ops(case, ["y"]).inputs
    assert x == case.inputs[0]
    assert a == TensorInput("a", case.graph.node("a").value, source, leaf=False, inference=inference)
    assert (n, s) == (ScalarInput("n", 7), ScalarInput("s", None))


def test_a_cut_value_that_requires_no_grad_is_a_leaf():
    case = case_of(CUT.replace("(requires_grad=True)", ""))
    assert with_ops(case, ["y"]).inputs[1].leaf is True


def test_tangents_come_last_in_a_backward_graph():
    graph = "tangents_1: float32[2]\nx: float32[2]\na = torch.sin(x)\nb = torch.f(tangents_1, a)\nreturn b,"
    expected = "a: float32[2]\ntangents_1: float32[2]\nb = torch.f(tangents_1, a)\nreturn b,"
    assert is_shown(with_ops(case_of(graph, level=Level.AOT_BACKWARD), ["b"]), expected)
    assert [i.name for i in with_ops(case_of(graph, level=Level.AOT_FORWARD), ["b"]).inputs] == ["tangents_1", "a"]


def test_symbols_are_dynamos_again_after_a_cut():
    text = 'x: float32[4 @ "2*s0"]\na = torch.sin(x)\nb = torch.cos(a)\nreturn b,'
    cut = with_ops(case_of(text), ["b"])
    assert [item.name for item in cut.inputs] == ["s1", "a"]
    plain = with_ops(case_of(text, level=Level.AOT_FORWARD), ["b"])
    assert [item.name for item in plain.inputs] == ["a"]
    given = with_ops(case_of("x: float32[4]\na = torch.sin(x)\nreturn a,", symbolic=Symbolic.GIVEN), ["a"])
    assert [item.name for item in given.inputs] == ["s0", "x"]
    assert [item.name for item in with_ops(case_of("x: float32[4]\na = torch.sin(x)\nreturn a,"), ["a"]).inputs] == [
        "x"
    ]
