"""What the failure needs: a sentence for each row of a pass that could not go, with the names of the repro."""

from __future__ import annotations

from dataclasses import replace

from case_samples import call, graph, placeholder, small_case
from outcomes import outcome, summed_up, text_of

from minifier.data.case import Call, Ref
from minifier.data.case.graph import EMPTY_GRAPH
from minifier.reduction.passes.table import SIMPLIFICATIONS
from minifier.repro.report.outcome import result_data

OPS = {"bypass", "pairs", "merge", "together"}  # whose rejections only repeat that no op can go


def needing(*changes, needs=()):
    given = summed_up(outcome(), needs=changes, passes={"sizes": "fixpoint"})
    return replace(given, minimal=replace(given.minimal, needs=needs))


def needs_of(given) -> str:
    return text_of(given).partition("### What the failure needs\n")[2].partition("\n#")[0]


def test_every_pass_has_sentences():
    """A row of a new pass would be left out of the report without a word."""
    case = small_case()
    silent = {each.name for each in SIMPLIFICATIONS for row in each.rows(case) if not row.change}
    assert silent <= {*OPS, "sizes"}, silent


def test_a_change_names_the_op_by_its_function():
    case = replace(small_case(), graph=graph(placeholder("x"), call("g", "torch.gelu", Ref("x"), approximate="tanh")))
    changes = [row.change for each in SIMPLIFICATIONS for row in each.rows(case) if each.name == "arguments"]
    assert changes and all("`torch.gelu`" in change for change in changes)


def test_what_the_failure_does_not_need_is_not_said():
    """Inputs that are others than in the script are no need: the repro has them."""
    assert "What the failure needs" not in text_of(needing())


def test_a_need_names_a_dimension_by_the_variable_of_the_repro():
    given = needing("`x` made contiguous.", needs=("a size of 8 or more in dimension 1 of `x`",))
    given = replace(given, repro=replace(given.repro, names={"x": "hidden"}))
    assert "dimension 1 of `hidden`" in needs_of(given) and "`hidden` made contiguous" in needs_of(given)
    assert "dimension 1 of hidden" in result_data(given)["needs"][0]


def test_many_details_are_counted():
    found = needs_of(needing(*(f"Number {number}." for number in range(20))))
    assert "Number 1." in found and "Number 19" not in found and "more" in found


def test_calls_ahead_are_a_need():
    given = needing("No input.")
    ahead = replace(given, minimal=replace(given.minimal, before=(Call(EMPTY_GRAPH),)))
    assert len(text_of(ahead)) > len(text_of(given)) and "1 other graph" in text_of(ahead)
