"""What the failure needs: a sentence for each row of a pass that could not go, with the names of the repro."""

from __future__ import annotations

from dataclasses import replace

import pytest
from case_samples import small_case
from outcomes import outcome, summed_up, text_of

from minifier.data.case import Call
from minifier.data.case.graph import EMPTY_GRAPH
from minifier.reduction.passes.inputs import data_rows
from minifier.reduction.passes.table import DATA, SIMPLIFICATIONS
from minifier.repro.report.needs_text import sentences_of_needs
from minifier.repro.report.outcome import result_data

OPS = {"bypass", "pairs", "merge", "together"}  # whose rejections only repeat that no op can go


def needing(*rows, needs=()):
    given = summed_up(outcome(), needs=rows, passes={"sizes": "fixpoint"})
    return replace(given, minimal=replace(given.minimal, needs=needs))


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("data: values of x", ["values", "`x`"]),
        ("layout: stride of x", ["`x`", "contiguous"]),
        ("dtypes: float16", ["`float16`"]),
        ("dims: first of 3 dimensions", ["3 dimensions"]),
        ("literals: -2.5 in add", ["`-2.5`", "`add`"]),
        ("arguments: dim= of tanh", ["`dim=`", "`tanh`"]),
        ("config: torch._inductor.config.cpp", ["`torch._inductor.config.cpp`"]),
        ("options: mode=", ["`mode=`"]),
        ("data: number of x", ["`x`", "zeros"]),
    ],
)
def test_a_row_that_cannot_go_names_what_it_is_about(row, words):
    (sentence,) = sentences_of_needs(needing(row))
    assert all(word in sentence for word in words)


def test_dimensions_of_an_input_are_told_together_and_need_no_size_besides():
    rows = ("sizes: dimension 0 of x", "sizes: dimension 2 of x", "sizes: dimension 1 of y")
    of_x, of_y = sentences_of_needs(needing(*rows, needs=("a size of 2 or more",)))
    assert "0 and 2 of `x`" in of_x and "1 of `y`" in of_y


@pytest.mark.parametrize("need", ["a size of 8", "a size of exactly 8", "a size of 8 or more", "a multiple of 8"])
def test_a_need_of_the_case_names_its_number(need):
    need = need.replace("a multiple", "a size that is a multiple")
    (sentence,) = sentences_of_needs(needing(needs=(need,)))
    assert "8" in sentence


def test_what_the_failure_does_not_need_is_not_said():
    """Inputs that are others than in the script are no need: the repro has them."""
    assert "What the failure needs" not in text_of(needing())


def test_a_need_names_a_dimension_by_the_variable_of_the_repro():
    given = needing(needs=("a size of 8 or more in dimension 1 of `x`",))
    given = replace(given, repro=replace(given.repro, names={"x": "hidden"}))
    (sentence,) = sentences_of_needs(given)
    assert "dimension 1 of `hidden`" in sentence and "dimension 1 of hidden" in result_data(given)["needs"][0]


@pytest.mark.parametrize(
    ("need", "words"), [("int8", "only int8 fails"), ("int8 or uint8", "int8 and uint8, which fail")]
)
def test_the_dtypes_that_fail_are_named(need, words):
    (sentence,) = sentences_of_needs(needing(needs=(need,)))
    assert words in sentence


def test_every_pass_has_sentences():
    """A row of a new pass would be left out of the report without a word."""
    case = small_case()
    rows = [f"{each.name}: {row.name}" for each in SIMPLIFICATIONS for row in each.rows(case)]
    rows += [f"{DATA[0]}: {row.name}" for row in data_rows(case, {})]
    silent = {row.partition(":")[0] for row in rows if not sentences_of_needs(needing(row))}
    assert silent <= {*OPS, "sizes"}, silent


def test_many_details_are_counted():
    found = sentences_of_needs(needing(*(f"literals: {number} in add" for number in range(20))))
    assert len(found) < 20 and "more" in found[-1]


def test_calls_ahead_are_a_need():
    given = needing("dtypes: float16")
    ahead = replace(given, minimal=replace(given.minimal, before=(Call(EMPTY_GRAPH),)))
    assert len(text_of(ahead)) > len(text_of(given)) and "1 other graph" in text_of(ahead)
