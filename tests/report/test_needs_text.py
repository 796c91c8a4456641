"""What the failure needs, in sentences, with names of the repro."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from case_samples import small_case
from test_sections import outcome, text_of
from test_shown_names import WEIGHT
from test_shown_names import outcome as outcome_with_names

from minifier.case import CallAhead
from minifier.case.graph import EMPTY_GRAPH
from minifier.passes.data import data_rows
from minifier.passes.table import DATA, SIMPLIFICATIONS
from minifier.report.needs_text import sentence_of_freedom, sentences_of_needs

OPS = ("bypass", "pairs", "merge", "together")  # whose rejections only repeat that no op can go


def needing(*rows, needs=(), given=None):
    given = given or outcome(small_case().failure)
    summary = replace(given.summary, needs=rows, passes={"sizes": "fixpoint"})
    return replace(given, summary=summary, minimal=replace(given.minimal, needs=needs))


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ("data: values of x", "The values of `x` matter: with others the failure is gone."),
        ("layout: stride of x", "`x` must not be contiguous."),
        ("dtypes: float16", "The dtype must be `float16`."),
        ("sizes: dimension 1 of x", "Dimension 1 of `x` must not be 1."),
        ("dims: first of 3 dimensions", "An input must have 3 dimensions."),
        ("literals: -2.5 in add", "The number `-2.5` in the call of `add` cannot be simpler."),
        ("arguments: dim= of tanh", "The call of `tanh` needs its argument `dim=`."),
        ("config: torch._inductor.config.cpp", "The setting `torch._inductor.config.cpp` must be as in the repro."),
        ("options: mode=", "The argument `mode=` of `torch.compile` must be as in the repro."),
        ("grad: leaves", "An input must be the result of an op, not a leaf."),
    ],
)
def test_a_row_that_cannot_go_is_a_sentence(row, sentence):
    assert sentences_of_needs(needing(row)) == (sentence,)


def test_dimensions_of_an_input_are_told_together_and_need_no_size_besides():
    rows = ("sizes: dimension 0 of x", "layout: stride of x", "sizes: dimension 2 of x", "sizes: dimension 1 of y")
    assert sentences_of_needs(needing(*rows, needs=("a size of 2 or more",))) == (
        "Dimensions 0 and 2 of `x` must not be 1.",
        "`x` must not be contiguous.",
        "Dimension 1 of `y` must not be 1.",
    )


@pytest.mark.parametrize(
    ("need", "sentence"),
    [
        ("a size of 0", "A size must be 0."),
        ("a size of exactly 3", "A size must be exactly 3: a smaller and a larger one pass."),
        ("a size of 5 or more", "A size must be 5 or more."),
        ("a size that is a multiple of 8", "A size must be a multiple of 8."),
        ("inputs that share memory", "Inputs must share memory."),
    ],
)
def test_a_need_of_the_case_is_a_sentence(need, sentence):
    assert sentences_of_needs(needing(needs=(need,))) == (sentence,)


def test_every_pass_has_sentences():
    """A row of a new pass would be left out of the report without a word."""
    case = small_case()
    families = {each.name for each in SIMPLIFICATIONS} - {"sizes"} | {DATA[0]}
    rows = [f"{each.name}: {row.name}" for each in SIMPLIFICATIONS for row in each.rows(case)]
    rows += [f"{DATA[0]}: {row.name}" for row in data_rows(case, {})]
    told = {row: sentences_of_needs(needing(row)) for row in rows}
    silent = {row.partition(":")[0] for row, sentences in told.items() if not sentences}
    assert silent <= {*OPS, "sizes"}, silent
    assert families >= {row.partition(":")[0] for row in rows} - {"sizes"}
    assert all(re.fullmatch(r"[A-Z`].*\.", sentence) for sentences in told.values() for sentence in sentences)


@pytest.mark.parametrize(("with_repro", "name"), [(True, "w"), (False, "user.l1.weight")])
def test_inputs_have_the_names_that_a_reader_knows(with_repro, name):
    given = needing(f"data: values of {WEIGHT}", "outputs: result tanh", given=outcome_with_names(with_repro))
    values, result = sentences_of_needs(given)
    assert values.startswith(f"The values of `{name}` matter") and "the result of `tanh`" in result
    assert "l_self" not in text_of(given).partition("What the failure needs")[2].partition("##")[0]


def test_many_details_are_counted():
    found = sentences_of_needs(needing(*(f"literals: {number} in add" for number in range(20))))
    assert len(found) == 13 and found[-1] == "8 more details must stay as in the repro."


def test_what_does_not_matter_is_said_in_a_sentence():
    given = needing()
    bigger = replace(given.case.inputs[0].meta, shape=(7, 3), stride=(3, 1))
    nodes = (replace(given.case.graph.nodes[0], value=bigger), *given.case.graph.nodes[1:])
    captured = replace(given.case, graph=replace(given.case.graph, nodes=nodes))
    minimal = replace(given.minimal, inputs=given.minimal.inputs[:1])
    said = sentence_of_freedom(replace(given, case=captured, minimal=minimal))
    assert said == "The sizes and values of the inputs do not matter: they were changed, and the failure stayed."
    assert sentence_of_freedom(needing(needs=("a size of 0",))) == ""


def test_the_section_has_whole_sentences():
    given = needing("dtypes: float16", needs=("a size of 0",))
    ahead = replace(given.minimal, ahead=(CallAhead(EMPTY_GRAPH, ()),))
    section = text_of(replace(given, minimal=ahead)).partition("### What the failure needs\n\n")[2].partition("\n#")[0]
    assert section.splitlines() == [
        "The backend must have compiled and called 1 other graph before: alone, the failing call passes.",
        "",
        "Each of these was changed alone, and the failure was gone:",
        "",
        "- A size must be 0.",
        "- The dtype must be `float16`.",
    ]


def test_how_it_was_reduced_is_folded_away():
    text = text_of(needing())
    assert "<details>\n<summary>The graph as captured: 2 ops</summary>\n\n| op | as captured | left |\n" in text
