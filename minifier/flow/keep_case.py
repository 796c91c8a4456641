"""Choose the failing calls of a script to reduce, and begin an attempt for each."""

from __future__ import annotations

import filecmp
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from minifier.capturing.capture import (
    SYNCHRONOUS,
    FoundFailures,
    compare_with_eager,
    compile_module_calls,
    compiles_nothing,
    may_be_late,
    recapture_inputs,
    run_script,
    run_synchronously,
    should_compare,
)
from minifier.capturing.captured import Captured, FailingGraph
from minifier.capturing.script import Program, StandardInput
from minifier.capturing.script_limits import Terms
from minifier.capturing.slicing.cases import with_definitions
from minifier.data.case import EMPTY_GRAPH, BackendReference, BackendSource, Case, Script
from minifier.data.case.run_folder import RunFolder, ignore_results
from minifier.data.case.store import TENSORS, load, save
from minifier.data.case.switches import assignments
from minifier.data.failure import Stage
from minifier.data.losses import losses
from minifier.data.torch_names import INDUCTOR_MODULES
from minifier.errors import NoRepro, UsageError
from minifier.flow.attempt import Attempt, FailingCall, Run, backend_fallbacks
from minifier.flow.folders import Asked, lock_run, note_run
from minifier.flow.prepare import get_ready
from minifier.flow.reduce_in_child import with_memory_limit
from minifier.process.interrupts import interrupted_afterwards
from minifier.process.progress import Ui, counted
from minifier.reduction.probe.prepared_case import preload_for_run
from minifier.repro.report.privacy import PRIVATE
from minifier.torch_side.torch_private.dynamo import INDUCTOR


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
    """Run a script again that compiles nothing, in which no backend call failed, or an asynchronous kernel failed."""
    if compiles_nothing(found):
        run.ui.say("the script compiles nothing: running it again, compiling each module that it calls")
        found = compile_module_calls(found, run.ui)
        found = replace(found, fallbacks=("compile calls of modules",))
    if may_be_late(found):
        run.ui.say("this error of a device may have been raised after the op that caused it")
        run.ui.say(f"running the script again with {assignments(SYNCHRONOUS)}: each kernel ends before the next op")
        again = run_synchronously(found, run.ui)
        if again is found:
            run.ui.say("no backend call fails like that then: going on with the first run")
        else:
            found = replace(again, fallbacks=(*found.fallbacks, "wait for each kernel"))
    if should_compare(found, run.settings):
        run.ui.say("no backend call failed: running the script again, comparing each graph's result with eager's")
        if INDUCTOR in found.captured.backends:  # while the script keeps one core
            run.interpreters.import_ahead(INDUCTOR_MODULES)
        found = compare_with_eager(found, run.settings, run.ui)
        if found.captured.failure is not None and found.compared is not None and found.compared.excused:
            run.ui.say("the script fails, and a result is right only because eager itself varies: --compare strict")
            strict = replace(run.settings.measure, strict=True)
            again = compare_with_eager(found, replace(run.settings, measure=strict), run.ui)
            found = again if again.captured.failing else found
        found = replace(found, fallbacks=(*found.fallbacks, "compare with eager"))
    return found


def failing_calls(captured: Captured, graph: int | None) -> tuple[FailingGraph, ...]:
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


def without_failing(found: FoundFailures, known: Sequence[FailingGraph]) -> FoundFailures:
    """Return the run without the backend calls that fail in the way of one of these."""
    told = {(call.number, call.sentence) for call in known}
    left = [
        tuple(call for call in calls if (call.number, call.sentence) not in told)
        for calls in (found.captured.failing, found.captured.repeated)
    ]
    return replace(found, captured=replace(found.captured, failing=left[0], repeated=left[1]))


def list_failing(ui: Ui, failing: tuple[FailingGraph, ...], chosen: tuple[FailingGraph, ...]) -> None:
    """List the failing graphs if there are several, with the chosen ones marked."""
    if len(failing) > 1:
        ui.say(f"{len(failing)} backend calls failed:")
        for call in failing:
            mark = "*" if call in chosen else " "
            ui.say(f"{mark} graph {call.number}: {call.sentence}")
        if len(chosen) < len(failing):
            ui.say(f"graph {chosen[0].number} is reduced; choose another with --graph N, or take each with --all")


def folder_for(failing: FailingGraph, calls: Sequence[FailingGraph], folder: RunFolder) -> RunFolder:
    """Return the sub-folder for the results of one of several failing calls."""
    is_only_call = sum(call.number == failing.number for call in calls) == 1
    name = f"graph-{failing.number}" if is_only_call else f"graph-{failing.number}-call-{failing.call}"
    return RunFolder(folder.path / name)


def list_fallbacks(ui: Ui, compared: Captured | None) -> None:
    """List what backends did with their graphs besides compiling them, where a failure is reduced nevertheless."""
    for number, line in enumerate(backend_fallbacks(compared)):
        ui.say(f"  {line}" if number else line)


RECORDED = "record the inputs ahead of the failing call"


def call_to_reduce(found: FoundFailures, failing: FailingGraph, run: Run) -> FailingCall:
    """Return the failing call with what its Case needs: its inputs, and a graph that can be saved.

    A call that died, hung or changed its inputs is made again, in a second run of the script.
    """
    call = FailingCall(found, failing)
    if failing.inputs_lost and not failing.unsaved:
        run.ui.say(f"{failing.inputs_lost}: running the script again to keep them")
        with run.going_on():
            call = _recaptured(call, run)
    return call


def _recaptured(call: FailingCall, run: Run) -> FailingCall:
    failing = recapture_inputs(call.found, call.failing, run.ui)
    return replace(call, failing=failing, is_recorded=failing.folder != call.failing.folder)


def may_have_lost_inputs(attempt: Attempt) -> bool:
    """Whether the call's inputs may be others than the Case's.

    It may have changed them unseen: torch counts no change by `.data` or under inference mode. Those of a backward pass
    are known by their shapes alone.
    """
    call = attempt.call
    return (
        attempt.reduced is None
        and attempt.error is not None
        and call is not None
        and not call.failing.unsaved
        and call.failing.stage in (Stage.RUN, Stage.BACKWARD_RUN)
        and not call.failing.inputs_lost  # recorded already, or in vain
        and not call.is_recorded
    )


def with_inputs_recorded(attempt: Attempt) -> Attempt:
    """Run the script again to record the inputs ahead of the call; return the attempt at its beginning with them.

    If they are those that the first run has kept, the attempt keeps its error.
    """
    assert attempt.call is not None and attempt.asked is not None, "only a script can be run again"
    call = _recaptured(attempt.call, attempt.run)
    ahead, after = call.failing.folder / TENSORS, attempt.call.failing.folder / TENSORS
    if not ahead.exists() or (after.exists() and filecmp.cmp(ahead, after, shallow=False)):
        return attempt
    attempt.folder.clear(keep=True)
    case = keep_call(call, attempt.folder, attempt.asked, attempt.run)
    return replace(attempt, call=call, case=case, reduced=None, error=None)


def keep_case(captured: Path, out: Path, source: str = "") -> Case:
    """Copy the captured Case to `out`/case; return the copy.

    `source` is the script's text, for definitions that no import reaches.
    """
    ignore_results(out)
    place = RunFolder(out).case
    case = with_definitions(load(captured), source)
    save(case, place)
    if (captured / PRIVATE).exists():
        shutil.copyfile(captured / PRIVATE, place / PRIVATE)
    return load(place)


def keep_call(call: FailingCall, folder: RunFolder, asked: Asked, run: Run) -> Case:
    """Copy the Case of a failing call to the output folder; record the script there, and lock the folder."""
    note_run(folder.path, asked)
    lock_run(folder.path, run)
    return keep_case(call.failing.folder, folder.path, asked.program.source())


def begin_with_call(call: FailingCall, asked: Asked, folder: RunFolder, run: Run) -> Attempt:
    """Return the attempt for a failing call, and copy its Case to the output folder.

    The attempt has an error if the Case could not be saved.
    """
    failing = call.failing
    if failing.unsaved:
        run.ui.error(failing.failure.traceback)
        folder.path.mkdir(parents=True, exist_ok=True)
        error = NoRepro(f"its graph cannot be saved: {failing.unsaved}")
        script = Script(asked.program.name)
        case = Case(EMPTY_GRAPH, (), failing.reference, failing.failure, script=script)  # without an op
        attempt = Attempt(run, folder, case, asked, error=error)
    else:
        case = keep_call(call, folder, asked, run)
        if case.backend.name == INDUCTOR:
            run.interpreters.import_ahead(INDUCTOR_MODULES)
        size = f" ({counted(failing.ops, 'op')})" if failing.ops is not None else ""
        run.ui.say(f"graph {failing.number}{size} fails: {failing.sentence}")
        attempt = begin_with_case(case, asked, folder, run)
    fallbacks = (*call.found.fallbacks, *([RECORDED] if call.is_recorded else []))
    return replace(attempt, call=call, capture_seconds=call.found.captured.seconds, fallbacks=fallbacks)


def begin_with_case(case: Case, asked: Asked | None, folder: RunFolder, run: Run) -> Attempt:
    """Return the attempt for a Case, with an error if no fresh interpreter can import its backend."""
    if run.in_own_process:
        with run.going_on(), interrupted_afterwards():
            preload_for_run(case)
    run = replace(run, settings=with_memory_limit(run.settings, case))
    attempt, backend = Attempt(run, folder, case, asked), case.backend
    if backend.reach is not BackendSource.NONE:
        return attempt
    return replace(attempt, error=no_backend(backend, backend.reason))


def no_backend(backend: BackendReference, reason: str) -> NoRepro:
    """Build the error for a backend that no other process can have, with what to do about it."""
    return NoRepro(
        f"the backend {backend.name} cannot be imported by a fresh interpreter: {reason}. "
        "Assign it to a global name of a module that can be imported, or register it in one."
    )
