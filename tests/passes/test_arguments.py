"""Arguments of calls: which can be left out, and which numbers take the place of others."""

import pytest
from case_text import case_of
from pass_rows import is_shown, made, names

from minifier.reduction.passes.arguments import PASSES

NORM = """
    x: float32[2, 3]
    w: float32[3]
    norm = torch.nn.functional.layer_norm(x, (3,), w, eps=0.5)
    add = torch.add(norm, x, alpha=2)
    return add
"""
OTHER = case_of("x: float32[2]\ncos = torch.cos(x)\nreturn cos")


def test_keywords_and_last_arguments_are_left_out_down_to_the_first_tensor():
    found = made("arguments", case_of(NORM))
    assert list(found) == ["eps= of norm", "arguments of norm", "alpha= of add", "arguments of add"]
    (without_eps,) = found["eps= of norm"]
    assert is_shown(without_eps, NORM.replace(", eps=0.5", ""))
    one, two = found["arguments of norm"]
    assert is_shown(one, NORM.replace("    w: float32[3]\n", "").replace(", (3,), w", ""))
    assert is_shown(two, NORM.replace("    w: float32[3]\n", "").replace("(3,), w", "(3,)"))
    (only_norm,) = found["arguments of add"]
    assert is_shown(only_norm, NORM.replace("norm, x, alpha", "norm, alpha"))


def test_a_call_without_tensors_can_lose_every_argument():
    full = case_of("""
        x: float32[2, 3]
        full: float32[2] = torch.full((2,), 1.5)
        add = torch.add(x, full)
        return add
    """)
    assert [case.graph.node("full").args for case in made("arguments", full)["arguments of full"]] == [(), ((2,),)]


@pytest.mark.parametrize(
    "call",
    ["operator.add(x, 1)", "torch.ops.higher_order.cond(x, 1, out=2)", "x.to(torch.float64)", "x.type(torch.float64)"],
)
def test_ops_that_need_all_their_arguments_have_no_row(call):
    assert names("arguments", case_of(f"x: float32[2, 3]\ny = {call}\nreturn y")) == []


def test_an_argument_that_is_gone_already_is_left_alone():
    whole = case_of(NORM)
    for found in PASSES[0].rows(whole):
        for edit in found.edits:
            once = edit(whole)
            assert edit(once) == once != whole
            assert edit(OTHER) == OTHER


PADDED = """
    x: float32[2, 3]
    pad = torch.nn.functional.pad(x, (8, 2), value=0.25)
    add = torch.add(pad, 1, flag=True)
    return add
"""


def test_numbers_are_replaced_one_by_one_wherever_they_stand():
    found = made("literals", case_of(PADDED))
    assert list(found) == ["8 in pad", "0.25 in pad"]
    assert [case.graph.node("pad").args[1] for case in found["8 in pad"]] == [(1, 2), (2, 2)]
    assert [case.graph.node("pad").kwargs for case in found["0.25 in pad"]] == [
        {"value": number} for number in (1.0, 0.5, 2.0, 0.2)
    ]


def test_numbers_of_higher_order_ops_stay():
    assert names("literals", case_of("x: float32[2]\ny = torch.ops.higher_order.wrap(x, 77)\nreturn y")) == []


def test_a_number_that_is_gone_already_is_left_alone():
    shorter = case_of(PADDED.replace("(8, 2), value=0.25", ""))
    for found in PASSES[1].rows(case_of(PADDED)):
        assert all(edit(shorter) == shorter and edit(OTHER) == OTHER for edit in found.edits)
