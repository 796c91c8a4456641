"""Find the first of recorded backend calls that fails, also one in which a process died."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

from minifier.capturing.running_calls import Running
from minifier.data.case import BackendSource, Case
from minifier.data.case.calls import called
from minifier.data.case.run_folder import RunFolder
from minifier.data.case.store import CASE, load, save
from minifier.data.failure import Failure, Fingerprint, Kind, Stage
from minifier.data.settings import Settings
from minifier.errors import FailsByItself, MachineFailed, NoRepro, UsageError
from minifier.flow.folders import dead_captures, kept_source
from minifier.flow.keep_case import keep_case, no_backend
from minifier.process.progress import Phase, Progress, ProgressPipe, Ui, run_for_result
from minifier.reduction.probe.children import Limits
from minifier.reduction.probe.prepared_case import StartsThreads, prepare_case
from minifier.reduction.probe.verdicts import ForkingProber, seen
from minifier.repro.report.privacy import PRIVATE

_DEFAULT_TIMEOUT_SECONDS = 120.0  # as for a backend call of a script


def how_it_fails(case: Case, settings: Settings, imports_in_child: bool = False) -> Failure | None:
    """Call the backend once with the whole graph, up to the failure's stage; return the failure, or None for a pass.

    Raises NoRepro if the call cannot be made, FailsByItself if eager fails as well, and, without `imports_in_child`,
    StartsThreads if the backend's import started threads.
    """
    scratch = Path(tempfile.mkdtemp(prefix="minify-"))
    try:
        prepared = prepare_case(case, imports_in_child)
        if prepared.has_threads:  # a fork lacks them, so that a call may hang or fail in a way of its own
            raise StartsThreads(case.backend.name)
        prober = ForkingProber(prepared, scratch)
        limits = Limits(settings.timeout or _DEFAULT_TIMEOUT_SECONDS, settings.memory)
        (ended,) = prober.probe([case], case.failure.fingerprint.stage, limits)
        if ended.fault:
            raise NoRepro(f"the call could not be made once more:\n{ended.fault}")
        if ended.result is not None and ended.result["status"] == "invalid":
            raise FailsByItself(f"the graph fails without the backend as well:\n{ended.result['traceback']}")
        return seen(ended, case.graph.free_names)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


ANY_FAILURE = Failure(Fingerprint(Stage.COMPARE, Kind.SIGNAL), "", "")
"""The failure of a recorded Case. Its stage is the last: the results are compared."""


def first_failure(recorded: Path, work: Path, settings: Settings, ui: Ui, by_dynamo: bool = False) -> RunFolder | None:
    """Return the folder, in `work`, of the first failing call; None if all calls pass.

    `recorded` has a sub-folder with a Case for each call. `by_dynamo` looks for what fails in Dynamo as well, once
    the backend has returned. Raises NoRepro if a fresh interpreter cannot have the backend or cannot make the call,
    FailsByItself if eager fails as well, and MachineFailed.
    """
    for place in sorted((place for place in recorded.iterdir() if place.name.isdecimal()), key=lambda p: int(p.name)):
        folder = RunFolder(work / place.name)
        case = replace(keep_case(place, folder.path, source=kept_source(recorded)), through_dynamo=by_dynamo)
        _check_backend(case)
        failure = failure_in_child(case, settings, ui)
        if failure is not None:
            save(replace(case, failure=failure, backward=case.backward and _is_of_backward(failure)), folder.case)
            return folder
    return None


def _check_backend(case: Case) -> None:
    """Raise NoRepro if the backend has no source, or needs names of a script without a source."""
    backend = case.backend
    if backend.reach is BackendSource.NONE:
        raise no_backend(backend, backend.reason)
    if backend.reach is BackendSource.DEFINED and not case.definitions:
        names = ", ".join(backend.names)
        raise no_backend(backend, f"the source of __main__, which defines {names}, is not known")


def _is_of_backward(failure: Failure) -> bool:
    """Whether only a backward pass shows the failure."""
    stage = failure.fingerprint.stage
    if stage is Stage.COMPARE:
        return all(difference.is_of_backward for difference in failure.differences)
    return stage in (Stage.BACKWARD_COMPILE, Stage.BACKWARD_RUN)


def failure_in_child(case: Case, settings: Settings, ui: Ui, *, imports_in_child: bool = False) -> Failure | None:
    """Run the Case's call in a child, which imports the user's modules; return the failure, or None for a pass.

    Raises NoRepro if the call cannot be made, FailsByItself if eager fails as well, and MachineFailed if the child is
    killed or exits early.
    """

    def work(_channel: ProgressPipe) -> Failure | None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        with contextlib.suppress(KeyboardInterrupt):  # raised below
            return how_it_fails(case, settings, imports_in_child)
        return None

    try:
        failure, end = run_for_result(work, ui)
    except StartsThreads:
        return failure_in_child(case, settings, ui, imports_in_child=True)
    if end.interrupted:
        raise KeyboardInterrupt
    if end.status != 0:
        how = end.described
        raise MachineFailed(f"looking how the call fails was ended from outside, or by importing its backend ({how})")
    return failure


_WORK_FOLDER = "taken"
# They end a process. Any other failure of the repeated call is not the one that killed it.
_DEATHS = (Kind.SIGNAL, Kind.EXIT, Kind.OUT_OF_MEMORY)


def take_up(out: Path, settings: Settings, ui: Ui) -> None:
    """Make `out`/case from the leftovers of a dead process.

    How the process died is unknown. So its running backend calls are repeated in children, to see which call dies, and
    how. Raises UsageError if the process still runs, or died in no backend call, and NoRepro if no call dies again.
    """
    ui.show(Progress(Phase.REPLAY, subject=str(out)))
    dead = dead_captures(out)
    if not dead:
        raise UsageError(f"the process that captures into {out} is still running.")
    calls = [(folder, call) for folder, running in dead for call in running]
    if not calls:
        raise UsageError(
            f"the process that captured into {out} ended, but not in a backend call: nothing is to reduce."
        )
    reasons = []
    for folder, call in calls:
        reason = _keep_dying_call(folder, call, settings, ui)
        if not reason:
            RunFolder(folder / _WORK_FOLDER).case.rename(RunFolder(out).case)  # atomic
            for leftover, _ in dead:
                shutil.rmtree(leftover)
            return
        reasons.append(reason)
    raise NoRepro("\n".join(reasons))


def _keep_dying_call(leftover: Path, call: Running, settings: Settings, ui: Ui) -> str:
    """Make a Case of the call in the leftover folder, and return ""; return a reason if the call does not die again."""
    place = leftover / str(call.number)
    when = f"in call {call.call} of what its backend had made of it" if call.call else "while it was compiled"
    died = f"the process died with graph {call.number}, {when}"
    if not (place / CASE).exists():
        return f"{died}; the graph could not be saved."
    case = load(place)
    fingerprint = replace(case.failure.fingerprint, stage=call.stage)
    save(called(replace(case, failure=replace(case.failure, fingerprint=fingerprint)), max(1, call.call)), place)
    if (leftover / PRIVATE).is_file():
        shutil.copyfile(leftover / PRIVATE, place / PRIVATE)
    work = leftover / _WORK_FOLDER
    kept = keep_case(place, work, kept_source(leftover))
    failure = failure_in_child(kept, settings, ui)
    if failure is not None and failure.fingerprint.kind in _DEATHS:
        save(replace(kept, failure=failure), RunFolder(work).case)
        return ""
    result = "does not fail" if failure is None else f"ends otherwise: {failure.sentence}"
    if call.call and (case.tensors is None or case.calls != call.call):
        died += ". Its inputs are known by their shapes alone: minifier.capture(DIR, keep_inputs=True) keeps them"
    return f"{died}. That call, made once more, {result}."
