"""Run a script to see its failing backend calls, and choose the calls to reduce."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from minifier.capturing.captured import Captured, FailingGraph
from minifier.capturing.find_failures import (
    FoundFailures,
    compare_with_eager,
    compile_module_calls,
    compiles_nothing,
    run_script,
    should_compare,
)
from minifier.capturing.script import Program
from minifier.capturing.standard_input import StandardInput
from minifier.capturing.terms import Terms
from minifier.case.run_folder import RunFolder
from minifier.errors import UsageError
from minifier.interfaces.losses import losses
from minifier.process.progress import Ui
from minifier.workflow.attempt import Run
from minifier.workflow.backend_fallbacks import backend_fallbacks
from minifier.workflow.machine import get_ready


def run_observed(program: Program, run: Run) -> FoundFailures:
    """Run the program with observed backend calls. Tell the user which interfaces torch lacked meanwhile."""
    settings = run.settings
    work = Path(tempfile.mkdtemp(prefix="runs-"))  # removed with the temporary folder of the whole run
    program = replace(program, given=StandardInput(work / "stdin"))
    terms = Terms(settings.timeout, settings.memory, settings.match_log, settings.silent_fallbacks)
    losses_before = losses()
    found = run_script(program, work, terms, run.ui, lambda: get_ready(run.interpreters, run.ui.tick))
    for sentence in losses()[len(losses_before) :]:
        run.ui.say(sentence)
    return found


def look_further(found: FoundFailures, run: Run) -> FoundFailures:
    """Run a script again that compiles nothing, or in which no backend call failed."""
    if compiles_nothing(found):
        run.ui.say("the script compiles nothing: running it again, compiling each module that it calls")
        found = compile_module_calls(found, run.ui)
        found = replace(found, fallbacks=("compile calls of modules",))
    if should_compare(found, run.settings):
        run.ui.say("no backend call failed: running the script again, comparing each graph's result with eager's")
        found = compare_with_eager(found, run.settings, run.ui)
        found = replace(found, fallbacks=(*found.fallbacks, "compare with eager"))
    return found


def candidates_for(captured: Captured, graph: int | None) -> tuple[FailingGraph, ...]:
    """Return the failing calls that may be reduced, the first choice first: all, or the call of graph number `graph`.

    Raises UsageError if graph `graph` did not fail.
    """
    if graph is None:
        return captured.failing
    failures = (*captured.failing, *captured.repeated)
    matches = tuple(call for call in failures if call.number == graph)
    if not matches:
        numbers = ", ".join(str(number) for number in sorted({call.number for call in failures}))
        raise UsageError(f"graph {graph} of the script did not fail; these did: {numbers}.")
    return matches[:1]


def list_failing(ui: Ui, failing: tuple[FailingGraph, ...], chosen: tuple[FailingGraph, ...]) -> None:
    """List the failing graphs if there are several, with the chosen ones marked."""
    if len(failing) > 1:
        ui.say(f"{len(failing)} backend calls failed:")
        for call in failing:
            mark = "*" if call in chosen else " "
            ui.say(f"{mark} graph {call.number}: {call.sentence}")
        if len(chosen) < len(failing):
            ui.say(f"graph {chosen[0].number} is reduced; choose another with --graph N, or take each with --all")


def folder_for(failing: FailingGraph, candidates: Sequence[FailingGraph], folder: RunFolder) -> RunFolder:
    """Return the sub-folder for the results of one of several failing calls."""
    is_only_call = sum(call.number == failing.number for call in candidates) == 1
    name = f"graph-{failing.number}" if is_only_call else f"graph-{failing.number}-call-{failing.call}"
    return RunFolder(folder.path / name)


def list_fallbacks(ui: Ui, compared: Captured | None) -> None:
    """List what backends did with their graphs besides compiling them, where a failure is reduced nevertheless."""
    if (told := backend_fallbacks(compared)) is not None:
        for line in (told.head, *(f"  {line}" for line in told.lines)):
            ui.say(line)
