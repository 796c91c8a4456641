"""Candidates that pass may take longer than those that fail: the time limit grows until they have enough."""

import pytest
from chains import chain, names
from fake_prober import hangs, has, passes, raises, when

from minifier.data.case import Script
from minifier.data.case.ops import with_ops
from minifier.data.failure import Verdict
from minifier.reduction.flakiness import set_timeout

CASE = chain("sin", "cos", "tanh", "exp", "relu", "neg", "abs", "floor")
IS_BOTH = has("sin", "tanh")


def slow(seconds):
    """Fails after 0.2 s; what passes takes so long."""
    return when(IS_BOTH, raises(seconds=0.2), passes(seconds=seconds))


@pytest.mark.parametrize("seconds", [5.0, 40.0])
def test_candidates_that_pass_slowly_get_time_enough(reduce, seconds):
    done = reduce(CASE, slow(seconds), passes=())
    assert names(done.case) == ["sin", "tanh"] and done.summary.one_minimal and done.summary.unanswered == 0
    assert done.summary.probes[Verdict.UNRESOLVED.value] <= 6 and done.prober.limits[-1] >= seconds


def test_the_limit_heeds_the_script_and_the_user(reduce):
    case = chain("sin", "cos", "tanh", script=Script("failing", slowest=4.0))
    done = reduce(case, slow(11.0), passes=())
    assert done.summary.probes[Verdict.UNRESOLVED.value] == 0, "its slowest backend call counts"
    done = reduce(CASE, slow(5.0), passes=(), timeout=2.0)
    assert max(done.prober.limits) <= 20.0, "more only where the proof rests on an answer"


def test_time_is_not_given_for_ever(make_lab):
    """Candidates that hang: in the end each costs as little as the first."""
    lab, prober = make_lab(CASE, when(IS_BOTH, raises(seconds=0.2), hangs()))
    set_timeout(lab, 0.2)
    for name in names(CASE) * 3:
        assert lab.probe([with_ops(CASE, [name])])[0].verdict is Verdict.UNRESOLVED
    assert prober.limits[-1] == 2.0 and sum(prober.limits) < 800
