"""Candidates that pass may take longer than those that fail: the time limit grows until they have enough."""

import pytest
from chains import chain, names
from fake_prober import hangs, has, passes, raises, when

from minifier.case import Script
from minifier.case.ops import with_ops
from minifier.failure import Verdict
from minifier.reduction.probe_conditions import set_timeout

CASE = chain("sin", "cos", "tanh", "exp", "relu", "neg", "abs", "floor")
IS_BOTH = has("sin", "tanh")


def slow(seconds):
    """Fails after 0.2 s; what passes takes so long."""
    return when(IS_BOTH, raises(seconds=0.2), passes(seconds=seconds))


@pytest.mark.parametrize("seconds", [5.0, 12.0, 40.0])
def test_candidates_that_pass_slowly_get_time_enough(reduce, seconds):
    done = reduce(CASE, slow(seconds), passes=())
    assert names(done.case) == ["sin", "tanh"] and done.summary.one_minimal and done.summary.unanswered == 0
    assert done.summary.probes[Verdict.UNRESOLVED.value] <= 6
    assert done.prober.limits[-1] >= seconds


def test_the_slowest_backend_call_of_the_script_counts(reduce):
    case = chain("sin", "cos", "tanh", script=Script("failing", slowest=4.0))
    done = reduce(case, slow(11.0), passes=())
    assert done.summary.probes[Verdict.UNRESOLVED.value] == 0 and max(done.prober.limits[2:]) == pytest.approx(12.2)


def test_a_users_limit_stays(reduce):
    done = reduce(CASE, slow(5.0), passes=(), timeout=2.0)
    assert set(done.prober.limits) <= {2.0, 20.0}, "only where the proof rests on an answer"


def test_time_is_not_given_for_ever(make_lab):
    """Candidates that hang: in the end each costs as little as the first."""
    lab, prober = make_lab(CASE, when(IS_BOTH, raises(seconds=0.2), hangs()))
    set_timeout(lab, 0.2)
    alone = [with_ops(CASE, [name]) for name in names(CASE)]
    for _ in range(3):
        for case in alone:
            assert lab.probe([case])[0].verdict is Verdict.UNRESOLVED
    assert lab.limits.seconds == 2.0 and sum(prober.limits) < 800
    assert prober.limits[-8:] == [2.0] * 8
