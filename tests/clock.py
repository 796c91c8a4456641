"""Time in the tests: waits for an event, a clock that is moved by hand, a limit for what never comes.

No other file of the tests reads the clock or sleeps, so that no test depends on how fast the machine is.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, TypeVar

LIMIT_SECONDS = 120.0  # an event that takes longer never comes
_POLL_SECONDS = 0.01
_Found = TypeVar("_Found")


class Clock:
    """A clock for code that takes a `now`; it stands still until it is moved."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds

    def move(self, seconds: float) -> None:
        self.seconds += seconds


class AfterHangs:
    """A clock by which each hang that the file `noted` has noted has lasted an hour; otherwise the real one."""

    def __init__(self, noted: Path) -> None:
        self._noted = noted

    def __call__(self) -> float:
        hangs = self._noted.stat().st_size if self._noted.exists() else 0
        return time.monotonic() + 3600 * hangs


class Limit:
    """The time that a wait has, from now on."""

    def __init__(self, seconds: float | None) -> None:
        self._until = None if seconds is None else time.monotonic() + seconds

    @property
    def rest(self) -> float | None:
        """The seconds that are left, at least 0; None without a limit."""
        return None if self._until is None else max(0.0, self._until - time.monotonic())


class Process(Protocol):
    def poll(self) -> int | None: ...


def wait_until(
    is_so: Callable[[], _Found], what: object = "", seconds: float = LIMIT_SECONDS, process: Process | None = None
) -> _Found:
    """Wait until `is_so()` is true, and return its value.

    Fail with `what` or `what()` after so many seconds, or if the process ends before.
    """
    limit = Limit(seconds)
    while not (found := is_so()):
        ended = process is not None and process.poll() is not None
        if ended or not limit.rest:
            raise AssertionError(
                f"{'the process ended' if ended else 'not in time'}: {what() if callable(what) else what}"
            )
        time.sleep(_POLL_SECONDS)
    return found


def is_alive(pid: int) -> bool:
    """Whether the process runs; one that has ended and was not waited for does not."""
    return state_of(pid) not in ("", "Z")


def state_of(pid: int) -> str:
    """The state of a process: R, S, T (stopped), Z (ended, not waited for); empty if there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""
