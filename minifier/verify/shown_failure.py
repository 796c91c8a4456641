"""What the end of a script shows, as a Failure that can be compared with the one that is sought."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from minifier.emit.wrapping_statements import THE_END
from minifier.failure import Aspect, Failure, Fingerprint, Kind, Stage
from minifier.failure.fingerprint import Link, failure_of, was_wrapped
from minifier.failure.normalise import normalise


@dataclass(frozen=True, slots=True)
class End:
    """How a script ended: its status (negative: a signal; None: it had to be killed), what it printed, and the
    folder in which its observer left what it noted."""

    status: int | None
    output: str
    seconds: float
    observer: Path


# What faulthandler.dump_traceback_later prints before it ends a process that hangs, with status 1.
_GUARD = re.compile(r"^Timeout \((\d+:\d\d:\d\d)(?:\.\d+)?\)!$", re.MULTILINE)

_BACKWARD = "torch._functorch._aot_autograd.runtime_wrappers"
# Whether a frame, by module and function, shows that a backward pass was going on; the first that fits.
_FRAMES_OF_BACKWARD = (
    ((_BACKWARD, "get_or_compile"), Stage.BACKWARD_COMPILE),
    ((_BACKWARD, "_backward_impl"), Stage.BACKWARD_RUN),
    (("torch.autograd.graph", "_engine_run_backward"), Stage.BACKWARD_RUN),
)

# What assert_close, and the assertions that our templates have, say of each aspect.
_SAID = (
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
    ("eager raises", Aspect.NO_EXCEPTION),
    ("differs from", Aspect.PREDICATE),
)
_NOT_A_NUMBER = re.compile(r"[Aa]bsolute difference: -?(?:nan|inf)\b")


def _stage(links: Sequence[Link]) -> Stage:
    """Where an exception that ended a script came from: Dynamo's call of the backend, the run after it, or the
    backward pass after that."""
    frames = {(frame[0], frame[1]) for link in links for frame in link["frames"]}
    for frame, stage in _FRAMES_OF_BACKWARD:
        if frame in frames:
            return stage
    for link in links:
        if "torch._dynamo.exc.ShortenTraceback" in link["bases"]:
            return Stage.COMPILE
    if was_wrapped(links) or any(function == "_call_user_compiler" for _, function in frames):
        return Stage.COMPILE
    return Stage.RUN


def _aspect(message: str) -> Aspect:
    for words, aspect in _SAID:
        if words in message:
            return aspect
    return Aspect.NON_FINITE if _NOT_A_NUMBER.search(message) else Aspect.VALUES


def _difference(links: Sequence[Link], text: str, sought: Fingerprint) -> Failure | None:
    """The failed comparison that ended the script: an assertion of its own, or of torch.testing."""
    last = links[-1]
    module = last["frames"][-1][0] if last["frames"] else ""
    if last["type"] != "AssertionError" or not (module == "__main__" or module.startswith("torch.testing")):
        return None
    aspect = _aspect(last["message"])
    kind = Kind.NON_FINITE if aspect is Aspect.NON_FINITE else Kind.WRONG_RESULT
    if sought.message in (Aspect.MUTATION.value, Aspect.GRADIENT.value):
        # Only the inputs, or only the gradients, are compared by a script that was made for these.
        aspect, kind = Aspect(sought.message), sought.kind
    return Failure(
        Fingerprint(Stage.COMPARE, kind, message=aspect.value), "AssertionError", last["message"], traceback=text
    )


def _fallback(end: End, sought: Fingerprint, match_log: str | None) -> Failure | None:
    """The log record or warning in which the backend says that it gave up."""
    path = end.observer / "records.jsonl"
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        level, logger, message = json.loads(line)
        told = f"{level} {logger}: {message}"
        if match_log is not None:
            found = re.search(match_log, told) is not None
        else:
            found = sought.message in (normalise(message), normalise(told))
        if found:
            return Failure(sought, sought.kind.value, message, end.output)
    return None


def failure_shown(end: End, sought: Fingerprint | None, match_log: str | None = None) -> Failure | None:
    """The failure that a script showed, or None if it ended well.

    What only the one who asks can know is taken from `sought`: the stage of a death or a hang, whose inputs or
    gradients are compared, and which record of a log is a failure.
    """
    stage = sought.stage if sought is not None else Stage.RUN
    record = end.observer / "seen.json"
    if end.status is None:
        return _hang(stage, f"no end after {end.seconds:.0f} s", end.output)
    if record.exists():
        seen = json.loads(record.read_text(encoding="utf-8"))
        found = None
        if sought is not None and sought.stage is Stage.COMPARE:
            found = _difference(seen["links"], seen["text"], sought)
        return found or failure_of(_stage(seen["links"]), seen["links"], seen["text"])
    guarded = _GUARD.search(end.output)
    if end.status == 1 and guarded:
        return _hang(stage, f"no end after {_seconds(guarded.group(1))} s", end.output)
    if end.status < 0:
        return _death(stage, Kind.SIGNAL, signal.Signals(-end.status).name, end.output)
    if end.status > 0:
        return _death(stage, Kind.EXIT, f"exit status {end.status}", end.output)
    if sought is not None and sought.kind is Kind.SILENT_FALLBACK:
        return _fallback(end, sought, match_log)
    if sought is not None and (sought.kind, sought.message) == (Kind.EXIT, "exit status 0"):
        # Such a script ends with the same status whether it fails or not, but says so if not.
        return None if THE_END in end.output.splitlines() else _death(stage, Kind.EXIT, sought.message, end.output)
    return None


def _seconds(clock: str) -> int:
    hours, minutes, seconds = map(int, clock.split(":"))
    return 3600 * hours + 60 * minutes + seconds


def _hang(stage: Stage, message: str, output: str) -> Failure:
    return Failure(Fingerprint(stage, Kind.TIMEOUT, message="no end"), Kind.TIMEOUT.value, message, output)


def _death(stage: Stage, kind: Kind, text: str, output: str) -> Failure:
    return Failure(Fingerprint(stage, kind, message=text), kind.value, text, output)
