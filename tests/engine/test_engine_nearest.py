"""The nearest Case that passes, and what is told of the needs of a minimal Case."""

from dataclasses import replace

import pytest
from chains import chain, names
from fake_prober import has, raises, when

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


def resized(size):
    (item,) = TWO.inputs
    return replace(TWO, inputs=(replace(item, meta=replace(item.meta, shape=(size,))),))


CONFIGURED = replace(TWO, state=State(config=(("torch._dynamo.config", "verbose", True),)))
# Passing Cases with the passes that made them; which of them tells most.
NEIGHBOURS = {
    "the most telling pass": ([("config", CONFIGURED), ("sizes", resized(12345))], 1),
    "a known pass before an unknown one": ([("bypass", resized(2)), ("arguments", resized(12345))], 1),
    "the smallest change": ([("sizes", resized(12345)), ("sizes", resized(2))], 1),
    "the first of equals": ([("sizes", resized(2)), ("sizes", resized(3))], 0),
}


@pytest.mark.parametrize("which", NEIGHBOURS)
def test_of_several_that_pass(make_lab, which):
    neighbours, best = NEIGHBOURS[which]
    lab, prober = make_lab(TWO, BOTH)
    made = Simplifier(lab, TWO, TWO, passing_variants=neighbours)
    assert nearest(made) is neighbours[best][1] and prober.asked == []


def test_without_any_the_last_op_is_taken_away_if_that_passes(make_lab):
    lab, _ = make_lab(TWO, BOTH)
    assert names(nearest(Simplifier(lab, TWO, TWO))) == ["cos"]
    for ended in (raises(), raises("no room")):
        lab, _ = make_lab(TWO, lambda case, ended=ended: ended)
        assert nearest(Simplifier(lab, TWO, TWO)) is None
    one = replace(chain("tanh", shape=(1,)), state=State())
    lab, prober = make_lab(one, when(has("tanh"), raises()))
    assert nearest(Simplifier(lab, one, one)) is None and prober.asked == []


def fails_where(condition):
    return when(lambda case: condition(case.inputs[0].meta.shape), raises())


# The captured shape, what of it is needed, and what is said of that.
SIZES = [
    ((5,), lambda shape: max(shape) >= 5, ("a size of 5 or more",)),
    ((5,), lambda shape: shape == (5,), ("a size of exactly 5",)),
    ((5,), lambda shape: max(shape) % 5 == 0, ("a size that is a multiple of 5",)),
    ((2, 3), lambda shape: len({*shape}) == 2 and min(shape) > 1, ("a size of 3 or more", "a size of 2 or more")),
    ((0, 3), lambda shape: 0 in shape, ("a size of 0",)),
    ((0, 3), lambda shape: True, ()),
]


@pytest.mark.parametrize(("shape", "condition", "needs"), SIZES)
def test_a_size_is_tried_larger_to_tell_what_is_needed_of_it(make_lab, shape, condition, needs):
    lab, prober = make_lab(chain("tanh", shape=shape), fails_where(condition))
    made = simplified(lab, lab.prepared.case)
    before = len(prober.asked)
    assert with_needs(made).needs == needs and len(prober.asked) - before <= 3 * len(shape)


def test_no_size_is_told_where_a_value_is_needed(make_lab):
    """Size 1 alone passes: its only draw is positive."""

    def shows(candidate):
        (item,) = candidate.inputs
        return max(item.meta.shape) >= 2 or item.source == Drawn("full", -1.0)

    lab, _ = make_lab(chain("tanh", shape=(5,)), when(shows, raises()))
    made = simplified(lab, lab.prepared.case)
    assert made.case.inputs[0].meta.shape == (2,) and with_needs(made).needs == ()


def test_where_there_is_no_time_to_try_the_size_is_told_as_it_is(make_lab):
    lab, prober = make_lab(chain("tanh", shape=(5,)), fails_where(lambda shape: shape == (5,)))
    made = simplified(lab, lab.prepared.case)
    made.budget = replace(made.budget, max_probes=lab.total)
    before = len(prober.asked)
    assert with_needs(made).needs == ("a size of 5",) and len(prober.asked) == before


def test_ops_that_are_needed_anyway_are_no_need(make_lab):
    lab, _ = make_lab(TWO, BOTH)
    made = simplified(lab, TWO)
    assert with_needs(made).needs == () and made.rejected != []
