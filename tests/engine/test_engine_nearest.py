"""The nearest Case that passes, and what is told of the needs of a minimal Case."""

import math
from dataclasses import replace

import pytest
from case_samples import call, meta, output, placeholder
from chains import case_of, chain
from fake_prober import differs, invalid, passes, raises, seen_failure, when

from minifier.data.case import Drawn, Ref, State
from minifier.reduction.needs import measured_needs, nearest
from minifier.reduction.simplify import Simplifier

TWO = replace(chain("cos", "tanh", shape=(1,)), state=State())


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
def test_of_several_that_pass(which):
    neighbours, best = NEIGHBOURS[which]
    assert nearest(TWO, neighbours) is neighbours[best][1] and nearest(TWO, []) is None


def test_with_a_size_of_1_an_op_may_do_nothing():
    configured = replace(resized(2), state=CONFIGURED.state)
    assert nearest(resized(2), [("sizes", TWO), ("config", configured)]) is configured


def fails_where(condition):
    return when(lambda case: condition(case.inputs[0].meta.shape), raises())


# The captured shape, what of it is needed, and what is said of that.
SIZES = [
    ((5,), lambda shape: max(shape) >= 5, ["a size of 5 or more"]),
    ((5,), lambda shape: shape == (5,), ["a size of exactly 5"]),
    ((5,), lambda shape: max(shape) % 5 == 0, ["a size that is a multiple of 5"]),
    ((3,), lambda shape: max(shape) % 3 == 0 or max(shape) == 7, []),
    ((2,), lambda shape: max(shape) in (2, 4), []),
    ((2,), lambda shape: max(shape) & (max(shape) - 1) == 0 and max(shape) > 1, []),
    ((2, 3), lambda shape: len({*shape}) == 2 and min(shape) > 1, ["a size of 2 or more in dimension 0 of `x`"]),
    ((1, 5), lambda shape: len(shape) == 2 and shape[0] * shape[1] >= 5, []),
    ((7, 3), lambda shape: len(shape) == 2 and ((shape[1] >= 3 and shape[0] in (7, 8)) or shape >= (15, 2)), []),
    (
        (7, 3),
        lambda shape: shape[0] == 7 and max(shape[1:], default=0) >= 3,
        ["a size of exactly 7 in dimension 0 of `x`"],
    ),
    ((0, 3), lambda shape: 0 in shape, ["a size of 0"]),
]


def measured(lab, case):
    """What is said of the simplified Case, and how many probes that took."""
    made = simplified(lab, case)
    before = lab.total
    return measured_needs(made), lab.total - before


@pytest.mark.parametrize(("shape", "condition", "needs"), SIZES)
def test_sizes_on_both_sides_tell_what_is_needed_of_a_size(make_lab, shape, condition, needs):
    lab, _ = make_lab(chain("tanh", shape=shape), fails_where(condition))
    found, probes = measured(lab, lab.prepared.case)
    assert found.sentences == needs and probes <= 10 * len(shape)


def test_no_size_is_told_where_a_value_is_needed(make_lab):
    """Size 1 alone passes: its only draw is positive."""

    def shows(candidate):
        (item,) = candidate.inputs
        return max(item.meta.shape) >= 2 or drawn(candidate) < 0

    lab, _ = make_lab(chain("tanh", shape=(5,)), when(shows, raises()))
    made = simplified(lab, lab.prepared.case)
    assert made.case.inputs[0].meta.shape == (2,) and measured_needs(made).sentences == []


def drawn(case):
    """The first value of the Case's input: 0 for the draw that a repro makes itself."""
    (item,) = case.inputs
    return item.source.values[0] if isinstance(item.source, Drawn) and item.source.values else 0.0


WRONG = differs()
OF_VALUES = replace(chain("tanh", shape=(5,)), failure=seen_failure(WRONG), state=State())


@pytest.mark.parametrize(
    ("shows", "needs"),
    [
        (lambda size, value: size >= 5, ["a size of 5 or more"]),
        (lambda size, value: size >= 5 or (size > 1 and value > 0.2), []),
        (lambda size, value: size >= 5 and (value == 0 or value > 100), []),
        (lambda size, value: size == 5 or (size > 5 and value > 0.2), ["a size of 5 or more"]),
    ],
)
def test_where_values_matter_eight_draws_tell_what_passes(make_lab, shows, needs):
    """The repro's own draw passes below the size in each of them."""
    lab, _ = make_lab(OF_VALUES, when(lambda case: shows(max(case.inputs[0].meta.shape), drawn(case)), WRONG))
    found, _ = measured(lab, OF_VALUES)
    assert found.sentences == needs


@pytest.mark.parametrize(("otherwise", "rows"), [(passes(), 1), (invalid(), 0)])
def test_a_broken_program_tells_nothing_of_what_is_needed(make_lab, otherwise, rows):
    """Where only eager raises, nothing tells a broken program from another but its probe."""
    case = case_of(placeholder("x", meta(1)), call("gelu", "torch.gelu", Ref("x"), approximate="tanh"), output("gelu"))
    case = replace(case, state=State())
    lab, _ = make_lab(case, when(lambda each: bool(each.graph.node("gelu").kwargs), raises(), otherwise))
    made = Simplifier(lab, case, case, rejected=[("arguments", "approximate= of gelu")])
    made.ended = dict.fromkeys(made.ended, "fixpoint")
    assert len(measured_needs(made).changes) == rows


@pytest.mark.parametrize(("needed", "last"), [(True, 1.0), (False, 1.0), (True, math.inf)])
def test_values_are_needed_where_eight_draws_of_each_kind_pass(make_lab, needed, last):
    (item,) = OF_VALUES.inputs
    listed = Drawn("list", values=(500.0, 1.0, 1.0, 1.0, last))
    case = replace(OF_VALUES, inputs=(replace(item, source=listed),))
    lab, _ = make_lab(case, when(lambda each: drawn(each) == 500 or (drawn(each) > 0 and not needed), WRONG))
    made = Simplifier(lab, case, case, wants=lambda name: name == "data", rejected=[("data", "values of x")])
    made.ended["data"] = "fixpoint"
    found = measured_needs(made)
    assert found.sentences == (["these values"] if needed else [])
    assert len(found.changes) == needed and all("`x`" in change for change in found.changes)


@pytest.mark.parametrize("needed", [True, False])
def test_an_integer_other_than_zero_is_needed_where_zeros_pass(make_lab, needed):
    (item,) = OF_VALUES.inputs
    indices = replace(item, source=Drawn("full", -1), meta=replace(item.meta, dtype="int64"))
    case = replace(OF_VALUES, inputs=(indices,))
    lab, _ = make_lab(case, when(lambda each: each.inputs[0].source.how == "full" or not needed, WRONG))
    made = Simplifier(lab, case, case, wants=lambda name: name == "data", rejected=[("data", "values of x")])
    made.ended["data"] = "fixpoint"
    found = measured_needs(made)
    assert bool(found.sentences) is bool(found.changes) is needed
