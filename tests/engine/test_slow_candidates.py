"""Candidates that pass may take longer than those that fail: the proof gives them time enough."""

import pytest
from chains import chain, names
from fake_prober import has, passes, raises, when

from minifier.data.case import Script
from minifier.data.failure import Verdict

CASE = chain("sin", "cos", "tanh", "exp", "relu", "neg", "abs", "floor")
IS_BOTH = has("sin", "tanh")


def slow(seconds):
    """Fails after 0.2 s; what passes takes so long."""
    return when(IS_BOTH, raises(seconds=0.2), passes(seconds=seconds))


@pytest.mark.parametrize("seconds", [5.0, 40.0])
def test_candidates_that_pass_slowly_get_time_enough(reduce, seconds):
    done = reduce(CASE, slow(seconds), passes=())
    assert names(done.case) == ["sin", "tanh"] and done.summary.one_minimal and done.summary.unanswered == 0
    assert done.summary.probes[Verdict.PASS.value] >= 2 and max(done.prober.limits[3:]) >= seconds


def test_the_limit_heeds_the_script_and_the_user(reduce):
    case = chain("sin", "cos", "tanh", script=Script("failing", slowest=4.0))
    done = reduce(case, slow(11.0), passes=())
    assert done.summary.probes[Verdict.UNRESOLVED.value] == 0, "its slowest backend call counts"
    done = reduce(CASE, slow(5.0), passes=(), timeout=2.0)
    assert max(done.prober.limits) <= 20.0, "more only where the proof rests on an answer"
