"""Run a script to find its failing backend calls; further runs compare results with eager's, or use eager mode."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from minifier.capturing.capture import capture
from minifier.capturing.captured import Captured, FailingGraph
from minifier.capturing.script import Program, is_file
from minifier.capturing.terms import Comparing, Terms
from minifier.failure import Failure
from minifier.failure.from_comparison import rank_of
from minifier.process.child import Child, supervise
from minifier.process.progress import SILENT, Ui
from minifier.settings import Settings

_MAX_COMPARING_SHARE = 0.5  # of the script's own time, for all comparisons
MIN_COMPARING_SECONDS = 10.0  # for them in any case
_MIN_SECONDS_BY_ITSELF, _FACTOR_BY_ITSELF = 60.0, 10.0  # limit for a run without hooks; factor of the observed run
_MAX_COMPARING_RUNS = 3  # each leaves out the graph in whose comparison the previous run died


@dataclass(frozen=True, slots=True)
class FoundFailures:
    """The failures of a script. `captured` is the run that showed them, on `terms`, with its Cases in `graphs`.

    `compared` is the run that compared results with eager's, or None. `own_failure` is how the script failed by itself,
    by a check of its results say, ahead of that run. `work` is the folder for all runs. `fallbacks` are the names of
    the workflow's fallbacks that led here.
    """

    program: Program
    captured: Captured
    work: Path
    graphs: Path
    terms: Terms
    compared: Captured | None = None
    own_failure: Failure | None = None
    fallbacks: tuple[str, ...] = ()


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
        first.changed,
        last_calls=dict(first.calls),
        seconds=max(MIN_COMPARING_SECONDS, _MAX_COMPARING_SHARE * first.seconds),
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
        if second.bounded:
            ui.say(f"further calls were not compared: comparing had taken {second.bounded:.0f} s")
        second = replace(second, failing=_worst_first(second.failing))
        return replace(found, captured=second, graphs=place, terms=terms, compared=second, own_failure=first.failure)
    missing = tuple(dict([*lost, *second.not_compared]).items())
    return replace(found, terms=terms, compared=replace(second, not_compared=missing))


def _worst_first(failing: Sequence[FailingGraph]) -> tuple[FailingGraph, ...]:
    """Sort wrong results by their aspect, the worst first; a script may be wrong because of a later graph's."""
    return tuple(sorted(failing, key=lambda each: rank_of(each.failure) if each.failure is not None else -1))


def run_in_eager(found: FoundFailures, ui: Ui = SILENT) -> Captured:
    """Run the script again, as before, with torch.compile running everything in eager mode."""
    terms = replace(found.terms, comparing=None, in_eager=True)
    return capture(found.program, found.work / "in-eager", terms, ui)


def run_by_itself(found: FoundFailures, ui: Ui = SILENT) -> str:
    """Run the script as Python runs it, without any hook of this tool. Return how it failed; "" if it ended well.

    Also "" if it took ten times as long as under the hooks, or cannot be run so: its source was a pipe or generated.
    """
    program, captured = found.program, found.captured
    if program.is_redirected or program.made_of or not (program.is_module or is_file(program.target)):
        return ""
    command = [sys.executable, *(["-m"] if program.is_module else []), program.target, *program.arguments]
    prepare = program.given.set_up if program.given is not None else None
    errors = found.work / "by-itself.txt"
    with errors.open("wb") as file:
        child = Child.launched(command, prepare or (lambda: None), stdout=subprocess.DEVNULL, stderr=file)
    child.limit(max(_MIN_SECONDS_BY_ITSELF, _FACTOR_BY_ITSELF * captured.seconds))
    try:
        supervise([child], ui.tick)
    finally:
        child.kill()
    if child.timed_out or child.code == 0:
        return ""
    lines = [line for line in errors.read_text(errors="replace").splitlines() if line.strip()]
    last = f": {lines[-1].strip()}" if lines else ""
    return (f"with exit status {child.code}" if child.status is not None else f"by signal {child.signal}") + last


def compiles_nothing(found: FoundFailures) -> bool:
    """Whether a script that another backend shall compile ran to its end without a graph."""
    captured = found.captured
    return found.program.is_redirected and not captured.graphs and captured.failure is None


def compile_module_calls(found: FoundFailures, ui: Ui = SILENT) -> FoundFailures:
    """Run the script again, compiling each call of a module from outside of modules."""
    terms, graphs = replace(found.terms, module_calls=True), found.work / "module-calls"
    return replace(found, captured=capture(found.program, graphs, terms, ui), graphs=graphs, terms=terms)
