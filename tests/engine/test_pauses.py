"""Failures that take time between two calls: a backend swaps in what it compiled in the background, a moment later."""

from dataclasses import replace

import pytest
from chains import chain, names
from fake_prober import flaky, has, planned, raises, when

from minifier.data.case import Call, Script
from minifier.data.case.calls import call_of, called
from minifier.data.failure import Stage

AT_RUN = raises(stage=Stage.RUN)
OPS = ("cos", "neg", "tanh", "abs")


def waits(case):
    """Seconds between the first call and the failing call of the Case's own graph or of others."""
    return sum(call.pause for call in case.before)


def script(waited):
    return Script("failing", waited=waited)


def after(pause, calls=2, otherwise=0.0):
    """Shows after so many calls of a tanh and so long a pause, and by chance at another rate."""

    def shows(case):
        return has("tanh")(case) and case.calls >= calls and waits(case) >= pause

    return when(shows, AT_RUN, otherwise=flaky(otherwise, when(has("tanh"), AT_RUN), seed=1))


# The seconds that the failure takes, those that the script let pass, its rate without a pause; calls that are left.
SWAPS = {
    "soon": (0.05, 0.4, 0.0, 2),
    "shown by chance at times": (0.05, 0.4, 0.04, 2),
    "after a second": (0.7, 20.0, 0.0, 2),
    "after some calls": (0.05, 0.4, 0.0, 5),
}


@pytest.mark.parametrize("how", SWAPS)
def test_a_failure_after_a_pause_is_certain(reduce, how):
    needed, waited, chance, calls = SWAPS[how]
    case = called(chain(*OPS, failing=AT_RUN, script=script(waited)), 40)
    done = reduce(case, after(needed, calls, chance))
    assert (names(done.case), done.case.calls, done.case.rate) == (["tanh"], calls, 1.0)
    assert needed <= waits(done.case) <= max(1.0, 4 * needed)


def test_a_smaller_graph_that_takes_too_little_time_gets_a_pause(reduce):
    """The whole graph takes so long that the failure shows at its only call."""

    def shows(case):
        return waits(case) >= 0.05 or len(case.graph.ops) > 2

    by_chance = planned("F" + "PF" * 40, when(has("tanh"), AT_RUN))
    fault = when(lambda case: has("tanh")(case) and shows(case), AT_RUN, otherwise=by_chance)
    done = reduce(chain(*OPS, failing=AT_RUN, script=script(0.2)), fault)
    assert (names(done.case), done.case.calls, done.case.rate) == (["tanh"], 2, 1.0) and done.case.pauses


def test_a_pause_after_another_graphs_call_stays_and_becomes_short(reduce):
    def shows(case):
        ops = [node.short_target for call in case.others for node in call.graph.ops]
        return "exp" in ops and "tanh" in names(case) and waits(case) >= 0.2

    calls = [call_of(chain(op)) for op in ("exp", "sin", "relu")]
    before = (*calls[:-1], replace(calls[-1], pause=10.0))
    done = reduce(chain(*OPS, before=before, script=script(8.0)), when(shows, raises()))
    (call,) = done.case.others
    assert [node.short_target for node in call.graph.ops] == ["exp"] and 0.2 <= call.pause <= 1.0


def test_fewer_calls_keep_their_pause():
    case = replace(chain("tanh"), before=(Call(times=7, pause=0.3),))
    assert called(case, 3).before == (Call(times=2, pause=0.3),) and not called(case, 1).pauses
