"""Operands of higher-order ops that no body of theirs reads."""

from dataclasses import replace

import pytest
from case_text import case_of, graph_of, show
from pass_rows import is_shown, made, pass_named

READS_FIRST = "a: float32[2]\nb: float32[2]\nc = torch.sin(a)\nreturn c,"
READS_SECOND = "a: float32[2]\nb: float32[2]\nc = torch.sin(b)\nreturn c,"

COND = """
    p: bool[()]
    x: float32[2]
    y: float32[2]
    yes = get_attr(true_0)
    no = get_attr(false_0)
    made = torch.ops.higher_order.cond(p, yes, no, (x, y))
    return made
"""
CHECKPOINT = """
    x: float32[2]
    y: float32[2]
    body = get_attr(body_0)
    made = torch.ops.higher_order.tag_activation_checkpoint(body, x, y)
    return made
"""
REGION = """
    x: float32[2]
    y: float32[2]
    body = get_attr(body_0)
    made = torch.ops.higher_order.invoke_subgraph(body, "body_0", x, y)
    return made
"""


def branches(yes, no):
    return {"true_0": yes, "false_0": no}


def test_a_cond_does_not_hand_on_what_neither_branch_reads():
    case = case_of(COND, bodies=branches(READS_FIRST, READS_FIRST))
    found = made("operands", case)
    assert list(found) == ["operand 1 of made"]
    (left,) = found["operand 1 of made"]
    assert is_shown(left, COND.replace("    y: float32[2]\n", "").replace("(x, y)", "(x,)"))
    for name in ("true_0", "false_0"):
        assert show(left.graph.modules[name].graph) == show(graph_of(READS_FIRST.replace("b: float32[2]\n", "")))


def test_what_one_branch_reads_is_handed_on():
    assert made("operands", case_of(COND, bodies=branches(READS_FIRST, READS_SECOND))) == {}


@pytest.mark.parametrize("text", [CHECKPOINT, REGION], ids=["checkpoint", "region"])
@pytest.mark.parametrize(("body", "gone", "at"), [(READS_FIRST, "y", 1), (READS_SECOND, "x", 0)])
def test_a_body_of_its_own_is_handed_what_it_reads(text, body, gone, at):
    found = made("operands", case_of(text, bodies={"body_0": body}))
    assert list(found) == [f"operand {at} of made"]
    ((left,),) = found.values()
    shorter = text.replace(f"    {gone}: float32[2]\n", "").replace("x, y)", "x)" if gone == "y" else "y)")
    assert is_shown(left, shorter)
    assert [node.name for node in left.graph.modules["body_0"].graph.placeholders] == ["ba"[at]]


def test_a_body_that_two_ops_share_keeps_its_inputs():
    twice = CHECKPOINT.replace(
        "    return made",
        """    again = get_attr(body_0)
    other = torch.ops.higher_order.tag_activation_checkpoint(again, y, x)
    return made, other""",
    )
    assert made("operands", case_of(twice, bodies={"body_0": READS_FIRST})) == {}


def test_branches_that_are_one_graph_are_not_shared_with_another_op():
    same = COND.replace("false_0", "true_0").replace("    no = get_attr(true_0)\n", "").replace("yes, no", "yes, yes")
    ((left,),) = made("operands", case_of(same, bodies={"true_0": READS_FIRST})).values()
    assert [node.name for node in left.graph.modules["true_0"].graph.placeholders] == ["a"]


def test_bodies_that_are_no_graphs_or_take_another_number_of_operands_are_left_alone():
    case = case_of(CHECKPOINT, bodies={"body_0": READS_FIRST})
    unknown = replace(case.graph.modules["body_0"], graph=None)
    assert made("operands", replace(case, graph=replace(case.graph, modules={"body_0": unknown}))) == {}
    assert made("operands", case_of(CHECKPOINT, bodies={"body_0": READS_FIRST.replace("b: float32[2]\n", "")})) == {}
    assert made("operands", case_of(CHECKPOINT.replace("tag_activation_checkpoint", "wrap"))) == {}


def test_an_operand_that_is_gone_already_is_left_alone():
    case = case_of(CHECKPOINT, bodies={"body_0": READS_FIRST})
    ((edit,),) = [row.edits for row in pass_named("operands").rows(case)]
    once = edit(case)
    other = case_of("x: float32[2]\ncos = torch.cos(x)\nreturn cos")
    assert edit(once) == once and edit(other) == other
