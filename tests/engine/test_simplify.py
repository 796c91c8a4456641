"""The passes: everything at once, by halves, row by row; budgets, and what is known of an earlier run."""

import itertools
from dataclasses import replace

import pytest
import torch
from case_samples import call, meta, output, placeholder
from chains import case_of, chain, names
from fake_prober import has, passes, raises, targets, when
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from minifier.data.case import Drawn, Ref, Stored
from minifier.reduction.probe_runner import ProbeRunner
from minifier.reduction.simplify import Simplifier
from minifier.search import Budget
from minifier.torch_side.fx.tensors import TensorFile

TANH = chain("tanh", shape=(6, 20))
IS_TANH = when(has("tanh"), raises())


def shape(case):
    return case.inputs[0].meta.shape


def simplifier(lab, case, **more):
    lab.phase = "simplify"
    return Simplifier(lab, case, case, **more)


def test_everything_at_once_takes_one_probe(make_lab):
    lab, prober = make_lab(TANH, IS_TANH)
    made = simplifier(lab, TANH)
    case = made.run()
    assert shape(case) == (1,) and case.state.grad
    assert len(prober.asked) == 1 and made.finished and not made.stopped and made.rejected == []


def fails_from(size):
    return when(lambda case: max(shape(case), default=0) >= size, raises())


@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(captured=st.integers(1, 100), share=st.floats(0, 1), workers=st.sampled_from([1, 2, 4]))
def test_a_size_ends_at_the_smallest_that_fails(make_lab, captured, share, workers):
    least = max(1, round(share * captured))
    case = chain("tanh", shape=(captured,))
    lab, _ = make_lab(case, fails_from(least), workers)
    assert shape(simplifier(lab, case).run()) == (least,)
    lab.journal.close(finished=True)


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_the_order_of_answers_does_not_depend_on_workers(make_lab, data):
    """Any function of the Case as a fault: the same Case, rejected rows and passing variants."""
    seed = data.draw(st.integers(0, 2**32))
    first = chain("tanh", shape=data.draw(st.sampled_from([(4, 6), (12,), (2, 3, 5)])))
    wanted = {key(first)}

    def fault(case):
        return raises() if key(case) in wanted or hash((seed, key(case))) % 100 < 60 else passes()

    results = []
    for workers in (1, 2, 4):
        lab, prober = make_lab(first, fault, workers)
        made = simplifier(lab, first)
        results.append((made.run(), made.rejected, [name for name, _ in made.passing_variants], made.ended))
        lab.journal.close(finished=True)
        asked = [repr((case.graph, case.inputs, case.state)) for case in prober.asked]
        assert len(set(asked)) == len(asked), "no candidate is asked about twice"
    assert results[0] == results[1] == results[2]


def test_idle_workers_begin_with_the_passes_that_follow(make_lab):
    """Nothing can be made simpler: but for the tries of all at once, each worker has a candidate."""
    lab, prober = make_lab(TANH, when(lambda case: key(case) == key(TANH), raises()), workers=2)
    made = simplifier(lab, TANH)
    assert made.run() == TANH and {family for family, _ in made.rejected} == {"grad", "sizes"}
    assert {len(each) for each in prober.rounds[3:-1]} == {2}


def key(case):
    item = case.inputs[0]
    return (item.meta.shape, item.meta.dtype, case.state.grad, tuple(targets(case)))


def test_what_is_no_program_is_not_asked_about(make_lab):
    """Of a product of matrices the sizes between them have to be equal."""
    x, y = placeholder("x", meta(4, 6)), placeholder("y", meta(6, 5))
    case = case_of(x, y, call("mm", "torch.mm", Ref("x"), Ref("y"), value=meta(4, 5)), output("mm"))
    lab, prober = make_lab(case, when(lambda case: 6 in shape(case), raises()))
    made = simplifier(lab, case)
    made = made.run()
    assert [item.meta.shape for item in made.inputs] == [(1, 6), (6, 1)]
    for asked in prober.asked:
        first, last = asked.inputs[0].meta.shape, asked.inputs[-1].meta.shape
        assert len(first) == len(last) == 2 and first[1] == last[0]
    assert made.graph.node("mm").value.shape == (1, 1), "values are those that eager has"


def with_data(folder, values):
    """A chain whose input is the user's own."""
    file = TensorFile()
    (stored,) = file.add_inputs({"x": values}).values()
    path = file.write(folder / "tensors.safetensors")
    case = replace(chain("tanh", shape=tuple(values.shape)), tensors=path)
    (item,) = case.inputs
    return replace(case, inputs=(replace(item, source=stored),))


@pytest.mark.parametrize("workers", [1, 4])
@pytest.mark.parametrize(
    "budget", [Budget(max_probes=0), Budget(deadline=0.0), Budget(max_probes=2), Budget(max_probes=5)]
)
def test_a_budget_is_kept_to(make_lab, budget, workers):
    case = chain("tanh", shape=(40, 3))
    lab, prober = make_lab(case, fails_from(11), workers)
    made = simplifier(lab, case, budget=budget)
    left = made.run()
    assert len(prober.asked) <= (budget.max_probes or 0) and max(shape(left)) >= 11
    assert made.stopped and not made.finished


# Seconds that the search took, that pass with each look at the clock, the user's budget; whether there is time for all.
PATIENCE = [
    (0.0, 0.5, Budget(), True),
    (0.0, 31.0, Budget(), False),
    (100.0, 10.0, Budget(), True),
    (100.0, 101.0, Budget(), False),
    (1000.0, 500.0, Budget(deadline=1e9), True),
]


@pytest.mark.parametrize(("searched", "step", "budget", "finishes"), PATIENCE)
def test_they_take_half_a_minute_or_as_long_as_the_search_or_the_users_budget(
    make_lab, monkeypatch, searched, step, budget, finishes
):
    lab, _ = make_lab(TANH, IS_TANH)
    times = itertools.count(searched, step)
    monkeypatch.setattr(ProbeRunner, "seconds", property(lambda _: next(times), lambda *_: None))
    made = simplifier(lab, TANH, budget=budget)
    made.run()
    assert made.finished is finishes and made.stopped == ""


@pytest.mark.parametrize("wanted", [True, False])
def test_the_users_values_go_even_when_there_is_no_time(make_lab, folder, wanted):
    case = with_data(folder, torch.arange(120.0).view(6, 20))
    lab, prober = make_lab(case, IS_TANH)
    made = simplifier(lab, case, budget=Budget(max_probes=0), wants=lambda name: wanted or name != "data")
    made.run()
    left = made.without_data()
    assert isinstance(left.inputs[0].source, Drawn if wanted else Stored) and len(prober.asked) == wanted
    assert shape(left) == (6, 20)


# What the passes change may make an op removable: the ops are proved again on the simplified Case.

CASE = chain("cos", "sin", "exp", "tanh", "abs", shape=(4, 3))
BOTH = when(lambda case: {"sin", "tanh"} <= set(targets(case)), raises())


def rows(case):
    return case.inputs[0].meta.shape[0] if case.inputs else 0


def test_an_op_that_a_smaller_size_makes_removable_goes(reduce):
    needs_two = lambda case: "tanh" in targets(case) and ("sin" in targets(case) or rows(case) == 1)  # noqa: E731
    done = reduce(CASE, when(needs_two, raises()))
    assert names(done.case) == ["tanh"] and rows(done.case) == 1 and done.summary.one_minimal


def test_a_budget_that_ends_in_the_second_proof_leaves_it_open(reduce):
    whole = reduce(CASE, BOTH)
    assert names(whole.case) == ["sin", "tanh"] and whole.summary.one_minimal
    cut = reduce(CASE, BOTH, max_probes=whole.summary.probes["total"] - 1)
    assert not cut.summary.one_minimal and cut.summary.stopped_because


def test_an_op_without_an_answer_in_the_second_proof_leaves_it_open(reduce):
    def fault(case):
        return passes(seconds=1e9) if "sin" not in targets(case) and rows(case) == 1 else BOTH(case)

    done = reduce(CASE, fault)
    assert names(done.case) == ["sin", "tanh"] and not done.summary.one_minimal and done.summary.unanswered >= 1
