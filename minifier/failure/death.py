"""Failures of a process that raised no exception: a hang, a lack of memory, a fatal signal, an exit.

`text` is the stack of the process, or the end of its output.
"""

from __future__ import annotations

from minifier.failure.fingerprint import Failure, Fingerprint
from minifier.failure.kinds import Kind, Stage


def hang(stage: Stage, seconds: float, text: str = "") -> Failure:
    """Build the failure of a process that did not end. The seconds are no property of the failure."""
    return _failure(stage, Kind.TIMEOUT, "no end", f"no end after {seconds:.0f} s", text)


def no_memory(stage: Stage, text: str = "", message: str = "no more memory") -> Failure:
    """Build the failure of a process that got no more memory."""
    return _failure(stage, Kind.OUT_OF_MEMORY, "no more memory", message, text)


def fatal_signal(stage: Stage, name: str, text: str = "") -> Failure:
    """Build the failure of a process that died of a signal, `SIGSEGV` for example."""
    return _failure(stage, Kind.SIGNAL, name, name, text)


def exit_status(stage: Stage, status: int | None, text: str = "") -> Failure:
    """Build the failure of a process that ended with this status."""
    return _failure(stage, Kind.EXIT, f"exit status {status}", f"exit status {status}", text)


def _failure(stage: Stage, kind: Kind, identity: str, message: str, text: str) -> Failure:
    return Failure(Fingerprint(stage, kind, message=identity), kind.value, message, text)
