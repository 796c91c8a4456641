"""Ops, inputs and results that others stand in for."""

from dataclasses import replace

import pytest
from case_text import case_of
from pass_rows import is_shown, made, names

from minifier.data.case import Stored, Symbolic
from minifier.reduction.passes.operands import pruned

CHAIN = """
    x: float32[2]
    y: float32[2]
    a = torch.sin(x)
    b = torch.add(a, y)
    c = torch.cos(b)
    return c,
"""

SHARED = """
    x: float32[2]
    a = torch.sin(x)
    b = torch.cos(a)
    c = torch.neg(a)
    return b, c
"""


def test_an_op_is_bypassed_by_each_operand_of_its_shape():
    found = made("bypass", case_of(CHAIN))
    assert {name: len(cases) for name, cases in found.items()} == {"op a": 1, "op b": 2, "op c": 1}
    assert is_shown(found["op a"][0], CHAIN.replace("    a = torch.sin(x)\n", "").replace("add(a", "add(x"))
    without_b = CHAIN.replace("    b = torch.add(a, y)\n", "")
    assert is_shown(found["op b"][0], without_b.replace("    y: float32[2]\n", "").replace("(b)", "(a)"))
    only_c = "x: float32[2]\ny: float32[2]\na = torch.sin(x)\nc = torch.cos(y)\nreturn c,"
    assert is_shown(found["op b"][1], only_c)
    assert is_shown(found["op c"][0], CHAIN.replace("    c = torch.cos(b)\n", "").replace("return c", "return b"))


@pytest.mark.parametrize(
    "line",
    [
        "a: float32[3] = torch.sin(x)",
        "a: int64[2] = torch.sin(x)",
        'a: float32[2](device="cuda:0") = torch.sin(x)',
        'a: float32[2 @ "s0"] = torch.sin(x)',
        "a = x.add_(1)",
        "a: 5 = torch.sin(x)",
    ],
    ids=["shape", "dtype", "device", "symbol", "in place", "a number"],
)
def test_an_op_that_no_operand_is_like_has_no_row(line):
    text = CHAIN.replace("a = torch.sin(x)", line)
    assert "op a" not in names("bypass", case_of(text))


@pytest.mark.parametrize("kind", ["through_dynamo", "while_tracing"])
def test_where_dynamo_traces_anew_any_tensor_or_number_stands_in_for_another(kind):
    text = """
    x: int64[3]
    a: int64[1] = torch.min(x)
    n: 0 = a.item()
    m: -1 = operator.sub(n, 1)
    b: int64[1] = torch.select(x, 0, m)
    return b,
    """
    case = case_of(text)
    assert names("bypass", case) == []
    found = made("bypass", replace(case, **{kind: True}))
    assert list(found) == ["op a", "op m", "op b"]
    assert is_shown(found["op a"][0], text.replace("    a: int64[1] = torch.min(x)\n", "").replace("a.item", "x.item"))
    assert is_shown(found["op m"][0], text.replace("    m: -1 = operator.sub(n, 1)\n", "").replace("0, m", "0, n"))


def test_a_higher_order_op_is_not_given_the_same_tensor_twice():
    text = """
        x: float32[2]
        a = torch.sin(x)
        b = torch.ops.higher_order.wrap(x, a)
        c = torch.add(a, x)
        return b, c
    """
    case = case_of(text)
    assert made("bypass", case)["op a"] == [case]
    assert made(
        "merge",
        case_of(text.replace("a = torch.sin(x)", "").replace("x: float32[2]", "x: float32[2]\n        a: float32[2]")),
    )["input a"][0] == case_of(
        text.replace("a = torch.sin(x)", "").replace("x: float32[2]", "x: float32[2]\n        a: float32[2]")
    )


def test_inputs_of_a_kind_stand_in_for_each_other_two_at_most():
    text = "".join(f"{name}: float32[2]\n" for name in "abcd") + "y = torch.f(a, b, c, d)\nreturn y,"
    found = made("merge", case_of(text))
    assert {name: len(cases) for name, cases in found.items()} == {"input b": 1, "input c": 2, "input d": 2}
    assert is_shown(found["input d"][0], text.replace("d: float32[2]\n", "").replace("c, d", "c, a"))
    assert is_shown(found["input d"][1], text.replace("d: float32[2]\n", "").replace("c, d", "c, b"))


@pytest.mark.parametrize(
    ("changes", "merges"),
    [
        ({}, True),
        ({"source": Stored("b")}, True),
        ({"leaf": False}, False),
        ({"parameter": True}, False),
        ({"inference": True}, False),
    ],
)
def test_inputs_are_of_a_kind_whatever_their_values(changes, merges):
    case = case_of("a: float32[2]\nb: float32[2]\ny = torch.f(a, b)\nreturn y,")
    first, second = case.inputs
    case = replace(case, inputs=(first, replace(second, **changes)))
    assert names("merge", case) == (["input b"] if merges else [])


def test_results_that_an_op_reads_need_not_be_given_back():
    text = CHAIN.replace("return c,", "return a, c, b")
    found = made("outputs", case_of(text))
    assert list(found) == ["result a", "result b"]
    assert is_shown(found["result a"][0], text.replace("return a, c, b", "return c, b"))
    only = CHAIN.replace("return c,", "return a,")
    assert names("outputs", case_of(only)) == []


def test_an_op_goes_without_its_operand_as_a_result():
    found = made("withheld", case_of(SHARED))
    assert list(found) == ["op b", "op c"]
    assert is_shown(found["op b"][0], SHARED.replace("    b = torch.cos(a)\n", "").replace("b, c", "c,"))
    assert is_shown(found["op c"][0], SHARED.replace("    c = torch.neg(a)\n", "").replace("b, c", "b,"))


@pytest.mark.parametrize(
    "text",
    [CHAIN, SHARED.replace("b, c", "a, b, c"), SHARED.replace("torch.neg(a)", "torch.neg(x)")],
    ids=["nothing else reads the operand", "the operand is a result already", "its operand is an input"],
)
def test_an_op_whose_operand_would_be_no_new_result_has_no_row(text):
    assert names("withheld", case_of(text)) == []


def chain(length):
    ops = "".join(f"v{i + 1} = torch.sin(v{i})\n" for i in range(length))
    return case_of(f"v0: float32[2]\n{ops}return v{length},")


def test_any_two_of_five_ops_are_left_out_at_once():
    assert names("pairs", chain(2)) == []
    assert names("pairs", chain(3)) == ["ops v1 and v2", "ops v1 and v3", "ops v2 and v3"]
    assert len(names("pairs", chain(5))) == 10
    assert is_shown(made("pairs", chain(3))["ops v1 and v3"][0], "v1: float32[2]\nv2 = torch.sin(v1)\nreturn v2,")


def test_of_more_ops_two_are_left_out_of_which_one_reads_the_other():
    assert names("pairs", chain(6)) == [f"ops v{i} and v{i + 1}" for i in range(1, 6)]


def test_pruning_takes_unread_inputs_and_results_that_are_no_news():
    text = """
        x: float32[2]
        y: float32[2]
        a = torch.sin(x)
        return a, x, a
    """
    assert is_shown(pruned(case_of(text)), "x: float32[2]\na = torch.sin(x)\nreturn a,")


def test_pruning_leaves_no_unread_size():
    text = """
        s0: 4 @ "s0"
        x: float32[4 @ "s0"]
        n: 7
        y: float32[2]
        a = torch.sin(x)
        return a,
    """
    unread = 's0: 4 @ "s0"\nx: float32[4 @ "s0"]\ny: float32[2]\na = torch.sin(y)\nreturn a,'
    assert [item.name for item in pruned(case_of(unread, symbolic=Symbolic.MARKED)).inputs] == ["y"]
    expected = 'x: float32[4 @ "s0"]\na = torch.sin(x)\nreturn a,'
    assert is_shown(pruned(case_of(text)), expected)
