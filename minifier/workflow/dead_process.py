"""Turn the backend call in which a process died within `minifier.capture` into a Case."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

from minifier.capturing.events import forward_of
from minifier.capturing.running_calls import Running
from minifier.case.earlier_calls import called
from minifier.case.run_folder import RunFolder
from minifier.case.store import CASE, load, save
from minifier.errors import NoRepro, UsageError
from minifier.failure import Kind
from minifier.process.progress import Phase, Progress, Ui
from minifier.report.privacy import PRIVATE
from minifier.settings import Settings
from minifier.workflow.first_failure import failure_in_child
from minifier.workflow.keep_case import keep_case
from minifier.workflow.leftovers import dead_captures, kept_source

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
    kept = keep_case(place, work, forward_of(leftover, call.number), kept_source(leftover))
    failure = failure_in_child(kept, settings, ui)
    if failure is not None and failure.fingerprint.kind in _DEATHS:
        save(replace(kept, failure=failure), RunFolder(work).case)
        return ""
    result = "does not fail" if failure is None else f"ends otherwise: {failure.sentence}"
    if call.call and (case.tensors is None or case.calls != call.call):
        died += ". Its inputs are known by their shapes alone: minifier.capture(DIR, keep_inputs=True) keeps them"
    return f"{died}. That call, made once more, {result}."
