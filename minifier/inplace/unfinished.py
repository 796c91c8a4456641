"""What a process left that died within `minifier.capture`: the backend call that it was in becomes a Case."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

from minifier.capturing.status import Running, Status
from minifier.case.store import CASE, load, save
from minifier.errors import MinifyError, NoRepro, UsageError
from minifier.inplace.left import SOURCE, STATUS, UNFINISHED, is_held
from minifier.pipeline import adopt
from minifier.probe.bench import StartsThreads
from minifier.processes import run_stage
from minifier.reduction.discovery import how_it_fails
from minifier.settings import Settings

_KNOWN, _DOES_NOT_SHOW, _STARTS_THREADS = 0, 70, 71  # exit statuses
_TAKEN = "taken"


def take_up(out: Path, settings: Settings) -> None:
    """Makes out/case of it. How the process died is not known, so the call is made once more to see how it fails.

    Raises UsageError if the process is still there, or was in no backend call, and NoRepro if the call does not fail.
    """
    left = out / UNFINISHED
    call = _last_call(left)
    place = left / str(call.number)
    when = f"in call {call.call} of what its backend had made of it" if call.call else "while it was compiled"
    died = f"the process that captured into {out} died with graph {call.number}, {when}"
    if not (place / CASE).exists():
        raise NoRepro(f"{died}; the graph could not be written down.")
    case = load(place)
    source = (left / SOURCE).read_text(encoding="utf-8") if (left / SOURCE).exists() else ""
    fingerprint = replace(case.failure.fingerprint, stage=call.stage)
    save(replace(case, failure=replace(case.failure, fingerprint=fingerprint), calls=max(1, call.call)), place)
    adopt(place, left / _TAKEN, _forward_of(left, call.number), source)
    if not _shows_in_child(left / _TAKEN / "case", settings, late=False):
        if case.tensors is None:
            died += ". Its inputs are known by their shapes alone: minifier.capture(DIR, keep_inputs=True) keeps them"
        raise NoRepro(f"{died}. That call, made once more, does not fail.")
    (left / _TAKEN / "case").rename(out / "case")  # whole, or not at all
    shutil.rmtree(left)


def _last_call(left: Path) -> Running:
    if is_held(left):
        raise UsageError(f"the process that captures into {left.parent} is still running.")
    running = Status(left / STATUS).running()
    if not running:
        raise UsageError(f"the process that captured into {left.parent} ended, but not in a backend call.")
    return running[0]


def _forward_of(left: Path, number: int) -> int | None:
    """Of a backward graph, the number of Dynamo's graph that it belongs to."""
    for line in (left / "events.jsonl").read_text(encoding="utf-8").splitlines():
        event = json.loads(line)
        if event["event"] == "compiling" and event["number"] == number:
            found: int | None = event["forward"]
            return found
    return None


def _shows_in_child(source: Path, settings: Settings, late: bool) -> bool:
    """Writes into the Case how it fails, which a child finds out that imports the user's modules; whether it does."""

    def work() -> int:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        try:
            failure = how_it_fails(source, settings, late)
        except StartsThreads:
            return _STARTS_THREADS
        except NoRepro:  # the reduction will meet that as well, and tell of it
            return _KNOWN
        if failure is None:
            return _DOES_NOT_SHOW
        save(replace(load(source), failure=failure), source)
        return _KNOWN

    end = run_stage(work)
    if end.status == _STARTS_THREADS:
        return _shows_in_child(source, settings, late=True)
    if end.crash:
        raise MinifyError(end.crash)
    return end.status != _DOES_NOT_SHOW
