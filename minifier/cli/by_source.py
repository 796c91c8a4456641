"""What is left of the script itself, where no repro made of a graph shows the failure."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from minifier.cli.console import Console
from minifier.errors import NoRepro, NothingToReduce
from minifier.workflow.interrupted_runs import Asked

if TYPE_CHECKING:  # importing it would import torch before the arguments are checked
    from minifier.report.outcome import Outcome
    from minifier.settings import Settings


def by_source(
    asked: Asked, outcome: Outcome, place: Path, settings: Settings, console: Console, started: float
) -> Outcome:
    """The outcome as it is, or where it has no repro that of reducing the script's source."""
    from minifier.failure import Kind
    from minifier.report.finished import write_reports
    from minifier.report.outcome import Status
    from minifier.source.minify_source import minify_source

    shows_by_itself = (Kind.EXCEPTION, Kind.SIGNAL, Kind.EXIT)
    if outcome.status is not Status.NO_REPRO or outcome.case.failure.fingerprint.kind not in shows_by_itself:
        return outcome
    console.say(f"no standalone repro: {outcome.reason}")
    seconds = outcome.capture_seconds
    try:
        return minify_source(
            asked.program, place, settings, console.say, console, started, seconds, of_backend=outcome.case
        )
    except (NothingToReduce, NoRepro) as error:
        outcome = replace(outcome, reason=f"{outcome.reason}\nThe script itself cannot be reduced instead: {error}")
        write_reports(place, outcome)
        return outcome
