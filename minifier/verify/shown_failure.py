"""Read the end of a script as a Failure, to be compared with the sought failure."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from minifier.emit.wrapping_statements import THE_END
from minifier.failure import Aspect, Failure, Fingerprint, Kind, Stage, same
from minifier.failure.death import exit_status, fatal_signal, hang, no_memory
from minifier.failure.fingerprint import aborted_without_memory, failure_of, of_line, with_native
from minifier.failure.frames import Link
from minifier.failure.stage import stage_shown
from minifier.process.child import signal_name


@dataclass(frozen=True, slots=True)
class End:
    """How a script ended: its status (negative: a signal; None: a timeout), its output, its observer's folder."""

    status: int | None
    output: str
    seconds: float
    observer: Path


# Printed by faulthandler.dump_traceback_later before it ends a hanging process with status 1.
_GUARD = re.compile(r"^Timeout \((\d+:\d\d:\d\d)(?:\.\d+)?\)!$", re.MULTILINE)

# Phrases in the messages of assert_close and of our templates' assertions.
_ASPECT_PHRASES = (
    ("attribute 'shape'", Aspect.SHAPE),
    ("attribute 'dtype'", Aspect.DTYPE),
    ("attribute 'stride()'", Aspect.STRIDE),
    ("attribute 'layout'", Aspect.STRIDE),
    ("attribute 'device'", Aspect.DEVICE),
    ("attribute '", Aspect.STRUCTURE),
    ("None mismatch", Aspect.STRUCTURE),
    ("types do not match", Aspect.STRUCTURE),
    ("length of the sequences mismatch", Aspect.STRUCTURE),
    ("keys of the mappings do not match", Aspect.STRUCTURE),
    ("do not share memory as in eager", Aspect.ALIASING),
    ("written over the result of an earlier call", Aspect.OVERWRITTEN),
    ("requires_grad or is_leaf is not as in eager", Aspect.AUTOGRAD),
    ("eager raises", Aspect.NO_EXCEPTION),
    ("differs from", Aspect.PREDICATE),
)
_NON_FINITE_ERROR = re.compile(r"[Aa]bsolute difference: -?(?:nan|inf)\b")


def _aspect(message: str) -> Aspect:
    for phrase, aspect in _ASPECT_PHRASES:
        if phrase in message:
            return aspect
    return Aspect.NON_FINITE if _NON_FINITE_ERROR.search(message) else Aspect.VALUES


def _difference(links: Sequence[Link], text: str, sought: Fingerprint) -> Failure | None:
    """Return the failed comparison that ended the script: its own assertion or torch.testing's. Otherwise None."""
    last = links[-1]
    module = last["frames"][-1][0] if last["frames"] else ""
    if last["type"] != "AssertionError" or not (module == "__main__" or module.startswith("torch.testing")):
        return None
    aspect = _aspect(last["message"])
    kind = Kind.NON_FINITE if aspect is Aspect.NON_FINITE else Kind.WRONG_RESULT
    if aspect.value in sought.aspects or sought.message in (Aspect.MUTATION.value, Aspect.GRADIENT.value):
        # Another aspect of the same results may show first; a script of the latter compares only inputs or gradients.
        aspect, kind = Aspect(sought.message), sought.kind
    return Failure(
        Fingerprint(Stage.COMPARE, kind, message=aspect.value), "AssertionError", last["message"], traceback=text
    )


def _fallback(end: End, sought: Fingerprint, match_log: str | None) -> Failure | None:
    """Return the log record or warning that reports the backend's fallback, or None."""
    path = end.observer / "records.jsonl"
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        level, logger, message = json.loads(line)
        log_line = f"{level} {logger}: {message}"
        if match_log is not None:
            is_fallback = re.search(match_log, log_line) is not None
        else:
            lines = (of_line(sought.stage, each) for each in (message, log_line))
            is_fallback = any(same(sought, each, renamed={}) for each in lines)
        if is_fallback:
            return Failure(sought, sought.kind.value, message, end.output)
    return None


def failure_shown(end: End, sought: Fingerprint | None, match_log: str | None = None) -> Failure | None:
    """Return the failure that a script showed, with the output of native code; None if the script ended well.

    `sought` adds facts that the output does not show: the stage of a death or a hang, whether inputs or gradients are
    compared, and which log record is a failure.
    """
    failure = _failure_shown(end, sought, match_log)
    return with_native(failure, end.output) if failure is not None else None


def _failure_shown(end: End, sought: Fingerprint | None, match_log: str | None) -> Failure | None:
    stage = sought.stage if sought is not None else Stage.RUN
    record = end.observer / "seen.json"
    if end.status is None:
        return hang(stage, end.seconds, end.output)
    if record.exists():
        seen = json.loads(record.read_text(encoding="utf-8"))
        difference = None
        if sought is not None and sought.stage is Stage.COMPARE:
            difference = _difference(seen["links"], seen["text"], sought)
        return difference or failure_of(stage_shown(seen["links"]), seen["links"], seen["text"])
    guarded = _GUARD.search(end.output)
    if end.status == 1 and guarded:
        return hang(stage, _seconds(guarded.group(1)), end.output)
    if end.status == -signal.SIGABRT and aborted_without_memory(sought, end.output):
        return no_memory(stage, end.output)
    if end.status < 0:
        return fatal_signal(stage, signal_name(-end.status), end.output)
    if end.status > 0:
        return exit_status(stage, end.status, end.output)
    if sought is not None and sought.kind is Kind.SILENT_FALLBACK:
        return _fallback(end, sought, match_log)
    if sought is not None and (sought.kind, sought.message) == (Kind.EXIT, "exit status 0"):
        # Such a script always ends with status 0, but prints THE_END only if it does not fail.
        return None if THE_END in end.output.splitlines() else exit_status(stage, 0, end.output)
    return None


def _seconds(clock: str) -> int:
    hours, minutes, seconds = map(int, clock.split(":"))
    return 3600 * hours + 60 * minutes + seconds
