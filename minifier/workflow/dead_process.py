"""What a process left that died within `minifier.capture`: the backend call that it was in becomes a Case."""

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
from minifier.workflow.leftovers import SOURCE, left_in

_TAKEN, _SEEN = "taken", "seen.json"
# What ends a process; another failure of the same call is another failure.
_DEATHS = (Kind.SIGNAL, Kind.EXIT, Kind.OUT_OF_MEMORY)


def take_up(out: Path, settings: Settings, ui: Ui) -> None:
    """Makes out/case of it. How the process died is not known, so the calls that it was in are made once more, each in
    a child, to see which of them dies, and how.

    Raises UsageError if the process is still there, or was in no backend call, and NoRepro if no call dies again.
    """
    ui.show(Progress(Phase.REPLAY, subject=str(out)))
    dead = left_in(out)
    if not dead:
        raise UsageError(f"the process that captures into {out} is still running.")
    calls = [(folder, call) for folder, running in dead for call in running]
    if not calls:
        raise UsageError(
            f"the process that captured into {out} ended, but not in a backend call: nothing is to reduce."
        )
    reasons = []
    for folder, call in calls:
        reason = _taken(folder, call, settings, ui.tick)
        if not reason:
            (folder / _TAKEN / "case").rename(out / "case")  # whole, or not at all
            for other, _ in dead:
                shutil.rmtree(other)
            return
        reasons.append(reason)
    raise NoRepro("\n".join(reasons))


def _taken(left: Path, call: Running, settings: Settings, tick: Callable[[], None]) -> str:
    """Makes a Case of this call below the folder; gives the reason where it did not come to that."""
    place = left / str(call.number)
    when = f"in call {call.call} of what its backend had made of it" if call.call else "while it was compiled"
    died = f"the process died with graph {call.number}, {when}"
    if not (place / CASE).exists():
        return f"{died}; the graph could not be saved."
    case = load(place)
    source = (left / SOURCE).read_text(encoding="utf-8") if (left / SOURCE).is_file() else ""
    fingerprint = replace(case.failure.fingerprint, stage=call.stage)
    save(replace(case, failure=replace(case.failure, fingerprint=fingerprint), calls=max(1, call.call)), place)
    if (left / PRIVATE).is_file():
        shutil.copyfile(left / PRIVATE, place / PRIVATE)
    keep_case(place, left / _TAKEN, forward_of(left, call.number), source)
    failure = _how_it_fails_in_child(left / _TAKEN / "case", settings, late=False, tick=tick)
    if failure is not None and failure.fingerprint.kind in _DEATHS:
        save(replace(load(left / _TAKEN / "case"), failure=failure), left / _TAKEN / "case")
        return ""
    seen = "does not fail" if failure is None else f"ends otherwise: {failure.fingerprint.sentence()}"
    if call.call and (case.tensors is None or case.calls != call.call):
        died += ". Its inputs are known by their shapes alone: minifier.capture(DIR, keep_inputs=True) keeps them"
    return f"{died}. That call, made once more, {seen}."


def _how_it_fails_in_child(source: Path, settings: Settings, late: bool, tick: Callable[[], None]) -> Failure | None:
    """How the call of this Case fails, which a child finds out that imports the user's modules; None: it does not.
    Raises NoRepro where it cannot be made."""
    seen = source.with_name(_SEEN)
    seen.unlink(missing_ok=True)

    def work() -> int:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        failure = how_it_fails(source, settings, late)
        if failure is not None:
            seen.write_text(json.dumps(pack(failure)), encoding="utf-8")
        return 0

    try:
        end = run_step(work, look=lambda _pid: tick())
    except StartsThreads:
        return _how_it_fails_in_child(source, settings, late=True, tick=tick)
    if end.status != 0:
        how = f"signal {end.signal}" if end.signal is not None else f"exit status {end.status}"
        raise MachineFailed(f"looking how the call fails was ended from outside, or by importing its backend ({how})")
    found: Failure | None = unpack(Failure, json.loads(seen.read_text(encoding="utf-8"))) if seen.exists() else None
    return found
