"""Reduce another failure that was raised where the sought failure was, by fewer ops: the cause may be the same."""

from __future__ import annotations

import shutil
from dataclasses import replace

from minifier.case.run_folder import RunFolder
from minifier.case.source_names import source_names
from minifier.case.store import load
from minifier.errors import MinifyError
from minifier.settings import Settings
from minifier.workflow.attempt import Attempt, Run
from minifier.workflow.reduction import reduce_further

_MIN_SECONDS = 10.0  # without a budget of the user's; else as long as the first reduction took


def has_near_failure(attempt: Attempt) -> bool:
    """Whether another failure was met at the same place, by several ops but fewer, and the budget is not used up."""
    if attempt.repro is None or attempt.reduced is None or attempt.reduced.summary.stopped_because:
        return False
    others = attempt.reduced.summary.others
    left = _settings(attempt, attempt.run)
    is_affordable = left.budget is not None and left.budget > 0 and (left.max_probes is None or left.max_probes > 0)
    return bool(others) and bool(others[0]["near"]) and others[0]["ops"] > 1 and is_affordable


def reduce_near_failure(attempt: Attempt) -> Attempt:
    """Reduce the first of the other failures in its folder; return the attempt unchanged if that fails."""
    run, summary = attempt.run, attempt.reduction.summary
    other, *rest = summary.others
    place = attempt.folder.path / other["case"]
    with attempt.folder.scratch("near") as scratch:
        try:
            again = reduce_further(attempt, load(place), scratch, _settings(attempt, run))
        except MinifyError as error:  # an interrupt, say
            again = attempt.failed(error)
        if again.error is not None:
            run.ui.say(f"that failure stays as it was met: {again.error}")
            return attempt
        shutil.rmtree(place)
        RunFolder(scratch).minimal.rename(place)
    minimal = again.reduction.minimal
    message = minimal.failure.named(source_names(minimal.graph)).message
    told = {**other, "ops": len(minimal.graph.ops), "message": message, "reduced": True}
    reduced = replace(attempt.reduction, summary=replace(summary, others=(told, *rest)))
    return replace(attempt, reduced=reduced).took("reduce another failure of the same place")


def _settings(attempt: Attempt, run: Run) -> Settings:
    """Return the settings with what is left of the budget, and without patterns for the sought failure."""
    settings, summary = run.settings, attempt.reduction.summary
    probes = settings.max_probes
    return replace(
        settings,
        match=None,
        match_log=None,
        max_probes=None if probes is None else max(0, probes - summary.probes["total"]),
        budget=max(_MIN_SECONDS, summary.seconds) if settings.budget is None else settings.budget - run.ui.total,
    )
