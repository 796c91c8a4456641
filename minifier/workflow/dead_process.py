"""Turn the backend call in which a process died within `minifier.capture` into a Case."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from minifier.capturing.events import forward_of
from minifier.capturing.running_calls import Running
from minifier.case.encode import pack, unpack
from minifier.case.store import CASE, load, save
from minifier.errors import MachineFailed, NoRepro, UsageError
from minifier.failure import Failure, Kind
from minifier.probe.prepared_case import StartsThreads
from minifier.process.forked_step import run_step
from minifier.process.progress import Phase, Progress, Ui
from minifier.reduction.how_it_fails import how_it_fails
from minifier.report.privacy import PRIVATE
from minifier.settings import Settings
from minifier.workflow.keep_case import keep_case
from minifier.workflow.leftovers import SOURCE, dead_captures

_WORK_FOLDER, _FAILURE_FILE = "taken", "seen.json"
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
        reason = _keep_dying_call(folder, call, settings, ui.tick)
        if not reason:
            (folder / _WORK_FOLDER / "case").rename(out / "case")  # atomic
            for leftover, _ in dead:
                shutil.rmtree(leftover)
            return
        reasons.append(reason)
    raise NoRepro("\n".join(reasons))


def _keep_dying_call(leftover: Path, call: Running, settings: Settings, tick: Callable[[], None]) -> str:
    """Make a Case of the call in the leftover folder, and return ""; return a reason if the call does not die again."""
    place = leftover / str(call.number)
    when = f"in call {call.call} of what its backend had made of it" if call.call else "while it was compiled"
    died = f"the process died with graph {call.number}, {when}"
    if not (place / CASE).exists():
        return f"{died}; the graph could not be saved."
    case = load(place)
    source = (leftover / SOURCE).read_text(encoding="utf-8") if (leftover / SOURCE).is_file() else ""
    fingerprint = replace(case.failure.fingerprint, stage=call.stage)
    save(replace(case, failure=replace(case.failure, fingerprint=fingerprint), calls=max(1, call.call)), place)
    if (leftover / PRIVATE).is_file():
        shutil.copyfile(leftover / PRIVATE, place / PRIVATE)
    work = leftover / _WORK_FOLDER
    keep_case(place, work, forward_of(leftover, call.number), source)
    failure = _failure_in_child(work / "case", settings, imports_in_child=False, tick=tick)
    if failure is not None and failure.fingerprint.kind in _DEATHS:
        save(replace(load(work / "case"), failure=failure), work / "case")
        return ""
    result = "does not fail" if failure is None else f"ends otherwise: {failure.sentence}"
    if call.call and (case.tensors is None or case.calls != call.call):
        died += ". Its inputs are known by their shapes alone: minifier.capture(DIR, keep_inputs=True) keeps them"
    return f"{died}. That call, made once more, {result}."


def _failure_in_child(
    case: Path, settings: Settings, imports_in_child: bool, tick: Callable[[], None]
) -> Failure | None:
    """Run the Case's call in a child, which imports the user's modules; return the failure, or None for a pass.

    Raises NoRepro if the call cannot be made, and MachineFailed if the child is killed or exits early.
    """
    answer = case.with_name(_FAILURE_FILE)
    answer.unlink(missing_ok=True)

    def work() -> int:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        failure = how_it_fails(case, settings, imports_in_child)
        if failure is not None:
            answer.write_text(json.dumps(pack(failure)), encoding="utf-8")
        return 0

    try:
        end = run_step(work, tick)
    except StartsThreads:
        return _failure_in_child(case, settings, imports_in_child=True, tick=tick)
    if end.status != 0:
        how = f"signal {end.signal}" if end.signal is not None else f"exit status {end.status}"
        raise MachineFailed(f"looking how the call fails was ended from outside, or by importing its backend ({how})")
    if not answer.exists():
        return None
    failure: Failure = unpack(Failure, json.loads(answer.read_text(encoding="utf-8")))
    return failure
