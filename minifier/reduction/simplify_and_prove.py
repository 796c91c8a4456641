"""Simplifies a reduced Case and proves its ops again, until both change nothing."""

from __future__ import annotations

import contextlib

from minifier import search
from minifier.case import Case
from minifier.reduction.op_search import reduce_bodies
from minifier.reduction.probe_runner import ProbeRunner
from minifier.reduction.prove_again import proved_again
from minifier.reduction.simplify import Simplifier
from minifier.settings import Settings

STOPPED = {
    search.Ending.PROVED: "",
    search.Ending.MAX_PROBES: "the probe budget was used up",
    search.Ending.DEADLINE: "the time budget was used up",
    search.Ending.INTERRUPTED: "interrupted",
}


def simplified(
    runner: ProbeRunner,
    case: Case,
    reduced: Case,
    ended: search.Ending,
    budget: search.Budget,
    settings: Settings,
) -> tuple[Simplifier, search.Ending, str]:
    """Simplify the reduced Case and prove its ops again, until both change nothing.

    Return the last simplifier, how the last proof ended, and why this ended early, or "".
    """
    seconds = settings.seconds_for(case.script.seconds)
    accepted: list[Case] = []
    while True:
        simplifier = Simplifier(runner, case, reduced, budget, settings.wants, seconds, accepted)
        stopped = _simplify(simplifier, STOPPED[ended])
        if stopped or runner.key_of(simplifier.case) == runner.key_of(reduced):
            return simplifier, ended, stopped
        reduced, ended = _proved_again(simplifier, budget)
        if reduced == simplifier.case:
            return simplifier, ended, STOPPED[ended]
        accepted = [*simplifier.accepted[:1], simplifier.case, reduced]


def _simplify(simplifier: Simplifier, stopped: str) -> str:
    """Simplify everything except the ops, unless their search was `stopped`; return why this ended early, or ""."""
    simplifier.runner.phase = "simplify"
    try:
        if not stopped:
            simplifier.run()
            while simplifier.has_become_flaky() or simplifier.has_left_dynamo():
                simplifier.run()
            stopped = simplifier.stopped
    except KeyboardInterrupt:
        stopped = stopped or "interrupted after the ops were proved, before all else was simplified"
    if not simplifier.finished:
        with contextlib.suppress(KeyboardInterrupt):
            simplifier.without_data()
    return stopped


def _proved_again(simplifier: Simplifier, budget: search.Budget) -> tuple[Case, search.Ending]:
    """Prove the ops of the simplified Case; return the Case without the removable ops, and how this ended."""
    runner, case, ended = simplifier.runner, simplifier.case, search.Ending.INTERRUPTED
    with contextlib.suppress(KeyboardInterrupt):
        case, ended = proved_again(runner, case, simplifier.known, budget)
        if ended is search.Ending.PROVED and simplifier.wants("bodies"):
            case, ended = reduce_bodies(runner, case, budget)
    return case, ended
