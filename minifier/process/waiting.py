"""The time for which processes wait for a processor: on a busy machine it counts for no limit."""

from __future__ import annotations

import time
from collections.abc import Callable

from minifier.process.usage import read_threads, tree

_MIN_SECONDS = 0.25  # between two readings


class Waiting:
    """The time that a process and its descendants wait for a processor, read again and again."""

    def __init__(self, pid: int, now: Callable[[], float] = time.monotonic) -> None:
        self._pid, self._now = pid, now
        self._read = now()
        self._threads: dict[str, tuple[float, float]] = {}

    def since_last(self) -> float:
        """Return the seconds since the last reading in which the processes could have run and did not.

        With n threads busy, n seconds of waiting are one second. A process that sleeps does not wait for a processor.
        Return 0 right after a reading, or if the kernel tells nothing.
        """
        now = self._now()
        lasted = now - self._read
        if lasted < _MIN_SECONDS:
            return 0.0
        before, self._threads, self._read = self._threads, _threads(self._pid), now
        ran = waited = 0.0
        for thread, (running, waiting) in self._threads.items():
            ran_before, waited_before = before.get(thread, (0.0, 0.0))
            ran, waited = ran + running - ran_before, waited + waiting - waited_before
        return waited / max(1.0, (ran + waited) / lasted)


def _threads(pid: int) -> dict[str, tuple[float, float]]:
    """Return for each thread of the process tree how many seconds it ran, and waited to run.

    Source: Documentation/scheduler/sched-stats.rst of Linux, "/proc/<pid>/schedstat", in nanoseconds.
    """
    found = {}
    for each in tree(pid):
        for thread, text in read_threads(each, "schedstat").items():
            ran, waited, _ = text.split()
            found[thread] = int(ran) / 1e9, int(waited) / 1e9
    return found
