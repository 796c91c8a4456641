"""Check the result of the search over ops again, where the answers of probes may have been wrong."""

from __future__ import annotations

import math
from dataclasses import replace

from minifier import search
from minifier.case import Case
from minifier.errors import NoRepro
from minifier.failure import Verdict
from minifier.reduction.flakiness import certain_again, in_one_call, misjudged
from minifier.reduction.op_search import reduce_ops
from minifier.reduction.probe_runner import ProbeRunner

_HANG_FACTOR = 5  # times the timeout: how long the final hang must last
_MAX_ROUNDS = 3  # of a search that is repeated with a better rate or timeout


def confirmed(
    runner: ProbeRunner, budget: search.Budget, reduced: Case, result: search.Result
) -> tuple[Case, search.Result]:
    """Probe the reduced graph several more times; continue the search if the failure is rarer than assumed.
    The search may then have kept ops that the failure does not need. If a larger graph of the search shows the failure
    for certain, the search has removed ops that this takes, or time that these ops took: it goes on from a Case that is
    certain."""
    for _ in range(_MAX_ROUNDS):
        if not result.one_minimal:
            break
        runner.phase, was_certain = "check", runner.repeats == 1 and not runner.confirmations
        reduced = in_one_call(runner, reduced)
        if not misjudged(runner, reduced):
            break
        certain = certain_again(runner, reduced, runner.larger(reduced)) if was_certain else None
        reduced, result = reduce_ops(runner, certain or reduced, budget, anew=True)
    return reduced, result


def confirmed_hang(
    runner: ProbeRunner, case: Case, budget: search.Budget, reduced: Case, result: search.Result
) -> tuple[Case, search.Result]:
    """Wait much longer for the reduced hang. A run that ends was only slow: search again with a longer timeout."""
    for _ in range(_MAX_ROUNDS):
        timeout = runner.limits.seconds
        runner.phase = "check"
        runner.allow(_HANG_FACTOR * timeout)
        (judged,) = runner.probe([reduced])
        if judged.verdict is Verdict.SAME or result.ended is not search.Ending.PROVED:
            runner.allow(timeout)
            return replace(reduced, patience=_patience(timeout)), result
        runner.allow(10 * judged.seconds)
        reduced, result = reduce_ops(runner, case, budget, anew=True)
    raise NoRepro("every timeout tried was too short: the backend takes ever longer, but ends")


def _patience(timeout: float) -> float:
    """Return the seconds after which the repro reports a hang: a round number, well above a passing run."""
    return float(max(10, math.ceil(_HANG_FACTOR * timeout / 10) * 10))
