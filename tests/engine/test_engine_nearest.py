"""The nearest Case that passes: the most telling pass first, then the smallest change; else one op less."""

from dataclasses import replace

import pytest
from chains import chain, names
from fake_prober import has, passes, raises, when

from minifier.case import Drawn, State
from minifier.reduction.needs import nearest, with_needs
from minifier.reduction.simplify import Simplifier

TWO = replace(chain("cos", "tanh", shape=(1,)), state=State())
BOTH = when(has("cos", "tanh"), raises())


def simplified(lab, case):
    lab.phase = "simplify"
    made = Simplifier(lab, case, case)
    made.run()
    return made


def changed(size=None, config=()):
    case = replace(TWO, state=State(config=config))
    if size is None:
        return case
    (item,) = case.inputs
    return replace(case, inputs=(replace(item, meta=replace(item.meta, shape=(size,))),))


CONFIG = (("torch._dynamo.config", "verbose", True),)
# Passing Cases with the passes that made them; which of them tells most.
NEIGHBOURS = {
    "the most telling pass": ([("config", changed(config=CONFIG)), ("sizes", changed(12345))], 1),
    "a known pass before an unknown one": ([("bypass", changed(2)), ("arguments", changed(12345))], 1),
    "the smallest change": ([("sizes", changed(12345)), ("sizes", changed(2))], 1),
    "the first of equals": ([("sizes", changed(2)), ("sizes", changed(3))], 0),
}


@pytest.mark.parametrize("which", NEIGHBOURS)
def test_of_several_that_pass(make_lab, which):
    neighbours, best = NEIGHBOURS[which]
    lab, prober = make_lab(TWO, BOTH)
    made = Simplifier(lab, TWO, TWO, passing_variants=neighbours)
    assert nearest(made) is neighbours[best][1] and prober.asked == []


def test_without_any_the_last_op_is_taken_away(make_lab):
    lab, prober = make_lab(TWO, BOTH)
    made = Simplifier(lab, TWO, TWO)
    assert names(nearest(made)) == ["cos"] and prober.ops_asked == [["cos"]]


@pytest.mark.parametrize("ended", [raises(), raises("no room")])
def test_what_fails_without_its_last_op_has_none(make_lab, ended):
    lab, _ = make_lab(TWO, lambda case: ended)
    assert nearest(Simplifier(lab, TWO, TWO)) is None


def test_a_single_op_has_none(make_lab):
    one = replace(chain("tanh", shape=(1,)), state=State())
    lab, prober = make_lab(one, when(has("tanh"), raises()))
    assert nearest(Simplifier(lab, one, one)) is None and prober.asked == []


def fails_where(condition):
    return when(lambda case: condition(case.inputs[0].meta.shape), raises())


# What of a size is needed, and what is said of it.
SIZES = {
    "a size of 5 or more": lambda shape: max(shape) >= 5,
    "a size of exactly 5": lambda shape: shape == (5,),
    "a size that is a multiple of 5": lambda shape: max(shape) % 5 == 0,
}


@pytest.mark.parametrize("sentence", SIZES)
def test_a_size_is_tried_larger_to_tell_what_is_needed_of_it(make_lab, sentence):
    lab, prober = make_lab(chain("tanh", shape=(5,)), fails_where(SIZES[sentence]))
    made = simplified(lab, lab.prepared.case)
    before = len(prober.asked)
    assert with_needs(made).needs == (sentence,)
    larger = [case.inputs[0].meta.shape for case in prober.asked[before:]]
    assert larger == [(1,), (6,), *(() if "more" in sentence else [(10,)])], "size 1 with another value, larger ones"


def test_no_size_is_told_where_a_value_is_needed(make_lab):
    """Size 1 alone passes: its only draw is positive."""
    case = chain("tanh", shape=(5,))

    def shows(candidate):
        (item,) = candidate.inputs
        return max(item.meta.shape) >= 2 or item.source == Drawn("full", -1.0)

    lab, _ = make_lab(case, when(shows, raises()))
    made = simplified(lab, case)
    assert made.case.inputs[0].meta.shape == (2,) and with_needs(made).needs == ()


def test_a_larger_size_is_none_that_another_dimension_has(make_lab):
    case = chain("tanh", shape=(2, 3))
    lab, _ = make_lab(case, fails_where(lambda shape: len(set(shape)) == len(shape) == 2 and min(shape) > 1))
    assert with_needs(simplified(lab, case)).needs == ("a size of 3 or more", "a size of 2 or more")


@pytest.mark.parametrize("needed", [True, False])
def test_of_inputs_without_elements_it_is_told_whether_they_are_needed(make_lab, needed):
    case = chain("tanh", shape=(0, 3))
    lab, _ = make_lab(case, fails_where(lambda shape: 0 in shape or not needed))
    made = simplified(lab, case)
    assert with_needs(made).needs == (("a size of 0",) if needed else ())
    assert (0 in made.case.inputs[0].meta.shape) is needed


def test_where_there_is_no_time_to_try_the_size_is_told_as_it_is(make_lab):
    lab, prober = make_lab(chain("tanh", shape=(5,)), fails_where(lambda shape: shape == (5,)))
    made = simplified(lab, lab.prepared.case)
    made.budget = replace(made.budget, max_probes=lab.total)
    before = len(prober.asked)
    assert with_needs(made).needs == ("a size of 5",) and len(prober.asked) == before


def test_nothing_is_said_of_what_is_needed_anyway(make_lab):
    lab, _ = make_lab(TWO, BOTH)
    made = simplified(lab, TWO)
    assert with_needs(made).needs == () and made.rejected != []


def test_a_case_that_passes_with_less_is_no_need(make_lab):
    lab, _ = make_lab(TWO, lambda case: passes())
    assert with_needs(Simplifier(lab, TWO, TWO)).needs == ()
