"""Run a script to find its failing backend calls; further runs compare results with eager's, or use eager mode."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from minifier.capturing.capture import capture
from minifier.capturing.captured import Captured
from minifier.capturing.script import Program
from minifier.capturing.terms import Comparing, Terms
from minifier.process.progress import SILENT, Ui
from minifier.settings import Settings

_MAX_COMPARING_SHARE = 0.5  # of the script's own time, for all comparisons but each graph's first
_MAX_COMPARING_RUNS = 3  # each leaves out the graph in whose comparison the previous run died


@dataclass(frozen=True, slots=True)
class FoundFailures:
    """The failures of a script. `captured` is the run that showed them, on `terms`, with its Cases in `graphs`.

    `compared` is the run that compared results with eager's, or None. `work` is the folder for all runs.
    """

    program: Program
    captured: Captured
    work: Path
    graphs: Path
    terms: Terms
    compared: Captured | None = None


def run_script(
    program: Program, work: Path, terms: Terms, ui: Ui = SILENT, meanwhile: Callable[[], object] | None = None
) -> FoundFailures:
    """Run the script once; call `meanwhile` in this process during the run."""
    captured = capture(program, work / "graphs", terms, ui, meanwhile)
    return FoundFailures(program, captured, work, work / "graphs", terms)


def should_compare(found: FoundFailures, settings: Settings) -> bool:
    """Whether the script must run again, to compare compiled results with eager's."""
    captured = found.captured
    if (
        settings.compare == "never"
        or not captured.graphs
        or captured.end.interrupted
        or captured.end.signal is not None
    ):
        return False
    return not captured.failing or settings.compare == "always"


def compare_with_eager(found: FoundFailures, settings: Settings, ui: Ui = SILENT) -> FoundFailures:
    """Run the script again and compare results of each graph with eager's.

    A graph in whose comparison the process dies is left out of the next run, for `_MAX_COMPARING_RUNS` runs.
    """
    first = found.captured
    comparing = Comparing(
        settings.measure,
        first.trains,
        first.trained,
        last_calls=dict(first.calls),
        seconds=_MAX_COMPARING_SHARE * first.seconds,
    )
    lost: list[tuple[int, str]] = []
    for n in range(1, _MAX_COMPARING_RUNS + 1):
        place = found.work / f"compared-{n}"
        second = capture(found.program, place, replace(found.terms, comparing=comparing), ui)
        if second.failing or second.lost is None or second.end.interrupted:
            break
        lost += second.not_compared[-1:]
        if n == _MAX_COMPARING_RUNS:
            break
        ui.say(f"graph {lost[-1][0]} cannot be compared ({lost[-1][1]}): running the script again without that")
        comparing = replace(comparing, left_out=comparing.left_out | {second.lost})
    terms = replace(found.terms, comparing=comparing)
    if second.failing:
        return replace(found, captured=second, graphs=place, terms=terms, compared=second)
    missing = tuple(dict([*lost, *second.not_compared]).items())
    return replace(found, terms=terms, compared=replace(second, not_compared=missing))


def run_in_eager(found: FoundFailures, ui: Ui = SILENT) -> Captured:
    """Run the script again, as before, with torch.compile running everything in eager mode."""
    terms = replace(found.terms, comparing=None, in_eager=True)
    return capture(found.program, found.work / "in-eager", terms, ui)
