"""Results of an op of several: those that nothing needs, and all of them as they are."""

from dataclasses import replace

import pytest
from case_text import case_of
from pass_rows import is_shown, made

from minifier.data.failure import Stage

TOPK = """
    x: float32[4]
    topk: (float32[2], int64[2]) = torch.topk(x, 2)
    values: float32[2] = operator.getitem(topk, 0)
    places: int64[2] = operator.getitem(topk, 1)
    return values, places
"""


def test_items_that_no_op_reads_go_one_by_one():
    found = made("items", case_of(TOPK))
    assert list(found) == ["item values", "item places"]
    without_values = TOPK.replace("    values: float32[2] = operator.getitem(topk, 0)\n", "")
    assert is_shown(found["item values"][0], without_values.replace("values, places", "places,"))


def test_what_an_op_makes_is_given_back_as_it_is():
    (made_together,) = made("together", case_of(TOPK))["items"]
    assert is_shown(made_together, "x: float32[4]\ntopk: (float32[2], int64[2]) = torch.topk(x, 2)\nreturn topk,")


def running(case):
    return replace(case, failure=replace(case.failure, fingerprint=replace(case.failure.fingerprint, stage=Stage.RUN)))


@pytest.mark.parametrize(
    "case",
    [running(case_of(TOPK)), case_of(TOPK, backward=True)],
    ids=["values are compared", "a backward pass follows"],
)
def test_results_stay_apart_where_each_of_them_counts(case):
    assert made("together", case) == {}


@pytest.mark.parametrize(
    "text",
    [
        TOPK.replace("return values, places", "neg = torch.neg(values)\n    return values, places, neg"),
        TOPK.replace("return values, places", "return values,"),
        TOPK.replace("return values, places", "neg = torch.neg(values)\n    return values, places"),
        TOPK.replace(
            "torch.topk(x, 2)", "torch.topk(x, 2)\n    other: (float32[2], int64[2]) = torch.topk(x, 1)"
        ).replace("getitem(topk, 1)", "getitem(other, 1)"),
        "x: float32[4]\nfirst = operator.getitem(x, 0)\nreturn first,",
        "x: float32[4]\ncos = torch.cos(x)\nreturn cos,",
    ],
    ids=["another result", "not all of them", "an op reads one", "of two ops", "of an input", "no items"],
)
def test_results_stay_apart_where_something_else_is_given_back_or_read(text):
    case = case_of(text)
    assert made("together", case) == {"items": [case]}
