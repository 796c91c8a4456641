"""Looks after the script from outside: ends it where a backend call does not come back."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from minifier.capture.status import Running, Status
from minifier.capture.terms import Terms
from minifier.failure import Stage
from minifier.processes import kill_tree
from minifier.stacks import ASK, read_stack

LEAST = 120.0  # seconds that a backend call gets, unless the user says otherwise
_TIMES_SLOWEST = 10
_STOPPED = 2.0  # seconds between two looks from which on this process must have been stopped itself
_STACK = 2.0  # seconds that a hanging process has to write its stack


class Watch:
    """Given to `run_stage` as `look`. `hung` is the call for which the process was killed, if it was; `seconds` how
    long that call had been running, and `stack` where it was, as a traceback."""

    def __init__(self, status: Status, stacks: Path, terms: Terms) -> None:
        self._status, self._stacks, self._terms = status, stacks, terms
        self.hung: Running | None = None
        self.seconds = 0.0
        self.stack = ""
        self._last = time.monotonic()
        self._pauses: list[tuple[float, float]] = []  # (when, seconds) of the times that nothing ran at all

    def limit(self, call: Running) -> float:
        """Seconds after which this call counts as one that never ends."""
        keep = self._terms.keep
        if keep is not None and keep.patience is not None and (keep.number, keep.call) == (call.number, call.call):
            return keep.patience
        return self._terms.timeout or max(LEAST, _TIMES_SLOWEST * self._status.slowest)

    def __call__(self, pid: int) -> None:
        now = time.monotonic()
        if now - self._last > _STOPPED:  # Ctrl-Z: the script stood still as well
            self._pauses.append((now, now - self._last))
        self._last = now
        if self.hung is not None or self._status.has_ended:
            return
        for call in self._status.running():
            if call.stage is Stage.COMPARE and call.call == 0:  # eager ended when the script was run without the tool
                continue
            lasted = now - call.begun - sum(seconds for when, seconds in self._pauses if when > call.begun)
            if lasted > self.limit(call):
                self._end(pid, call, lasted)
                return

    def _end(self, pid: int, call: Running, lasted: float) -> None:
        os.kill(pid, ASK)
        until, size = time.monotonic() + _STACK, 0
        while time.monotonic() < until:
            time.sleep(0.1)
            before, size = size, self._stacks.stat().st_size if self._stacks.exists() else 0
            if size and size == before:
                break
        if call not in self._status.running():  # it came back at the last moment
            return
        kill_tree(pid)
        self.hung, self.seconds, self.stack = call, lasted, read_stack(self._stacks, call.thread)


# Somebody else's doing: the user, a shell, a scheduler.
_FROM_OUTSIDE = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT}


def sent_from_outside(number: int | None) -> bool:
    """Whether a process that died of this signal was ended by somebody, not by a fault."""
    return number in _FROM_OUTSIDE
