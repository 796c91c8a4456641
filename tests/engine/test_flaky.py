"""Failures that come and go, with the chances dealt: each try fails or passes by a plan."""

import itertools
import random

import pytest
from chains import chain, names
from fake_prober import exhausts, flaky, hangs, has, passes, planned, raises, when

from minifier.data.case.calls import called
from minifier.data.failure import Stage
from minifier.errors import NoRepro
from minifier.reduction.flakiness import misjudged, tries_of

OFTEN = "".join(random.Random(1).choices("PF", k=2000))  # half of the time
SELDOM = "".join(random.Random(1).choices("PPF", k=2000))
AT_RUN = raises(stage=Stage.RUN)
OPS = ("cos", "neg", "exp", "sin", "tanh", "sigmoid", "abs")
TANH = when(has("tanh"), AT_RUN)

# Calls of the script, the plan of the failing calls, and the rate at most.
PLANS = {
    "of every call": (1, "FF", 1.0),
    "missed by the first tries of one call": (4, "PPF" + OFTEN, 0.7),
    "missed by all tries of one call, met at the second": (4, "PPP" + "PF" + OFTEN, 0.7),
    "missed by all tries of fewer calls": (4, "PPP" + "PP" + "PPPF" * 2 + OFTEN, 0.7),
    "met by the first try of one call": (4, "FPF" + OFTEN, 0.7),
    "seen by the check alone": (1, "FF" + "P" * 12 + OFTEN, 0.7),
    "at a rate that was believed too high": (1, "FP" + "F" * 22 + "PPPPPP" + SELDOM, 0.6),
}


@pytest.mark.parametrize("when_met", PLANS)
def test_a_failure_met_by_chance_is_reduced_to_its_op_and_one_call(reduce, when_met):
    calls, plan, rate = PLANS[when_met]
    done = reduce(called(chain(*OPS, failing=AT_RUN), calls), planned(plan, TANH, each_call=True))
    assert (names(done.case), done.case.calls) == (["tanh"], 1)
    assert done.case.rate == 1 if rate == 1 else 0.2 < done.case.rate <= rate


@pytest.mark.parametrize(("rate", "workers", "seed"), [(0.3, 4, 1), (0.5, 2, 2), (0.8, 1, 3)])
def test_at_any_rate_the_needed_ops_are_left(reduce, rate, workers, seed):
    fault = flaky(rate, when(has("cos", "tanh"), AT_RUN), seed)
    done = reduce(chain(*OPS, failing=AT_RUN), fault, workers, doubtful=True, passes=())
    # Two needed ops stay, whatever chance says; the search may leave more once in a thousand answers.
    assert {"cos", "tanh"} <= set(names(done.case)) and len(names(done.case)) <= 3
    assert done.case.rate == pytest.approx(rate, abs=0.3)


CASE = chain("cos", "tanh")
HANG = chain("tanh", failing=hangs())


@pytest.mark.parametrize(
    ("case", "fault", "most"),
    [
        (CASE, planned("FF", when(has("tanh"), raises())), 2),
        (CASE, planned("PP", when(has("tanh"), raises())), 24),
        (CASE, planned("FP" + "F" * 30, when(has("tanh"), raises())), 24),
        (CASE, planned("FP", when(has("tanh"), raises(seconds=5.1))), 12),
        (CASE, lambda case: raises("no room"), 6),
        (HANG, lambda case: passes(), 1),
    ],
    ids=["steady", "gone", "in doubt", "slow", "another failure", "a hang"],
)
def test_a_case_is_tried_as_often_as_there_is_doubt(make_lab, case, fault, most):
    lab, prober = make_lab(case, fault, workers=2)
    assert len(tries_of(lab, case)) == len(prober.asked) <= most


def test_attempts_without_an_answer_do_not_count_in_the_rate(reduce):
    ends = itertools.cycle([AT_RUN, AT_RUN, passes(), exhausts(), exhausts(), exhausts()])
    fault = lambda case: next(ends) if has("tanh")(case) else passes()  # noqa: E731
    done = reduce(chain(*OPS, failing=AT_RUN), fault, doubtful=True)
    assert 0.5 < done.case.rate < 1  # of all attempts, a third would fail
    assert done.summary.probes["total"] < 500, "a search that begins anew has an op less"


# How often a reduced graph fails before it is believed, how often it is tried at most, and whether the search goes on.
BELIEVED = {
    "it fails each time": ("FFF", 1, 3, False),
    "it fails most times": ("FPF" + "F" * 30, 1, 24, True),
    "as often as was believed": ("FP" * 20, 15, 24, False),
    "more seldom than was believed": ("FPPPPPPP" * 4, 8, 24, True),
}


@pytest.mark.parametrize("how", BELIEVED)
def test_a_reduced_graph_is_tried_again(make_lab, how):
    plan, repeats, most, doubted = BELIEVED[how]
    lab, prober = make_lab(CASE, planned(plan, when(has("tanh"), raises())))
    lab.repeats = repeats
    assert misjudged(lab, CASE) is doubted
    tries = len(prober.asked)
    assert tries <= most and lab.rate == plan[:tries].count("F") / tries


def race(plan, *forms):
    """Each probe of a candidate with a tanh shows the form whose number is next in the plan, again and again."""
    numbers = itertools.cycle(map(int, plan))
    return lambda case: forms[next(numbers)] if has("tanh")(case) else passes()


INDEX, VALUE, KEY = (raises(kind=kind, stage=Stage.RUN) for kind in ("IndexError", "ValueError", "KeyError"))


@pytest.mark.parametrize("plan", ["01", "1110", "0201", "00" + "0" * 40 + "10" * 40])
def test_each_form_that_a_race_shows_on_the_whole_graph_is_the_failure(reduce, plan):
    done = reduce(chain(*OPS, failing=INDEX), race(plan, INDEX, VALUE, KEY), doubtful=len(plan) < 40)
    assert names(done.case) == ["tanh"] and done.case.failure.fingerprint.types == ("IndexError",)
    assert {form.types for form in done.case.failure.fingerprint.forms} <= {("ValueError",), ("KeyError",)}


def test_another_failure_each_time_is_no_form_of_the_sought_one(reduce):
    with pytest.raises(NoRepro):
        reduce(chain(*OPS, failing=INDEX), race("1", INDEX, VALUE))


def rarely(condition, fault):
    """The fault, but where the condition holds each candidate shows it in its first try alone."""
    tried = set()

    def shows(case):
        ended = fault(case)
        key = repr((case.graph, case.inputs))
        if ended.result == passes().result or not condition(case) or key not in tried:
            tried.add(key)
            return ended
        return passes()

    return shows


# Where a certain failure becomes a flaky one, and the smallest Case that shows it for certain.
LOST = {
    "sizes of one": (lambda case: case.elements < 2, ["tanh"], 2),
    "small sizes": (lambda case: case.elements < 5, ["tanh"], 6),
    "no op before": (lambda case: "cos" not in names(case), ["cos", "tanh"], 1),
}


@pytest.mark.parametrize("where", LOST)
@pytest.mark.parametrize("workers", [1, 3])
def test_a_certain_failure_stays_certain(reduce, where, workers):
    condition, ops, elements = LOST[where]
    done = reduce(chain(*OPS, shape=(4, 6), failing=AT_RUN), rarely(condition, TANH), workers)
    assert (names(done.case), done.case.rate) == (ops, 1.0) and not condition(done.case)
    assert done.case.elements == elements and not done.summary.stopped_because
    assert done.summary.probes["total"] <= 90


def test_a_certain_failure_costs_few_more_probes(reduce):
    done = reduce(chain(*OPS, shape=(4, 6), failing=AT_RUN), TANH)
    assert names(done.case) == ["tanh"] and done.summary.probes["total"] <= 14
