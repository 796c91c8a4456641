"""Looks for failures of a script: a first run, a second that compares with eager where no backend call failed, and
another for inputs that the failing call did not leave."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from minifier.capturing.capture import Captured, FailingGraph, capture
from minifier.capturing.recapture_inputs import recapture_inputs
from minifier.capturing.script import Program
from minifier.capturing.terms import Comparing, Terms
from minifier.errors import MinifyError
from minifier.process.progress import SILENT, Display
from minifier.settings import Settings

Say = Callable[[str], None]

_MOST_RUNS = 3  # that compare: each leaves out the graphs of which the one before died


@dataclass(frozen=True, slots=True)
class FoundFailures:
    """What was found: `captured` is the run whose failures count, on `terms`, its Cases in `graphs`; `compared` is the
    run that compared, if there was one."""

    program: Program
    captured: Captured
    graphs: Path
    terms: Terms
    compared: Captured | None = None

    def case_folder(
        self, failing: FailingGraph, place: Path, say: Say, display: Display = SILENT
    ) -> tuple[FailingGraph, Path]:
        """The folder of the Case of one of the failures, with the inputs of the failing call, for which the script may
        be run again in `place`; and the failure as that run showed it."""
        folder = self.graphs / str(failing.number)
        if not failing.inputs_lost or failing.unsaved:
            return failing, folder
        return recapture_inputs(self.program, failing, self.captured, folder, place, self.terms, say, display)


def find_failures(
    program: Program, work: Path, terms: Terms, settings: Settings, say: Say, display: Display = SILENT
) -> FoundFailures:
    """Runs the script, twice where `settings.compare` asks for it; `work` is a folder for what the runs leave."""
    first = _captured(program, work / "graphs", terms, display)
    looked = FoundFailures(program, first, work / "graphs", terms)
    if not _is_to_compare(first, settings):
        return looked
    say("no backend call failed: running the script again, comparing each graph's result with eager's")
    comparing = Comparing(settings.measure, first.trains, first.trained)
    lost: list[tuple[int, str]] = []
    for n in range(1, _MOST_RUNS + 1):
        place = work / f"compared-{n}"
        second = _captured(program, place, replace(terms, comparing=comparing), display)
        if second.failing or second.lost is None or second.end.interrupted:
            break
        lost += second.not_compared[-1:]
        if n == _MOST_RUNS:
            break
        say(f"graph {lost[-1][0]} cannot be compared ({lost[-1][1]}): running the script again without that")
        comparing = replace(comparing, left_out=comparing.left_out | {second.lost})
    terms = replace(terms, comparing=comparing)
    if second.failing:
        return FoundFailures(program, second, place, terms, second)
    missing = tuple(dict([*lost, *second.not_compared]).items())
    return replace(looked, terms=terms, compared=replace(second, not_compared=missing))


def _captured(program: Program, folder: Path, terms: Terms, display: Display) -> Captured:
    captured = capture(program, folder, terms, display)
    if captured.end.crash:
        raise MinifyError(captured.end.crash)
    return captured


def _is_to_compare(captured: Captured, settings: Settings) -> bool:
    """Whether the script is run a second time, to compare what was compiled with eager."""
    if (
        settings.compare == "never"
        or not captured.graphs
        or captured.end.interrupted
        or captured.end.signal is not None
    ):
        return False
    return not captured.failing or settings.compare == "always"
