"""Looks after the script from outside: ends it where a backend call does not come back, or has taken all memory."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from minifier.capturing.running_calls import Running, RunningCalls
from minifier.capturing.terms import Terms
from minifier.failure import Stage
from minifier.process.forked_step import kill_tree
from minifier.process.memory import MemoryWatch
from minifier.process.stacks import ASK, read_stack
from minifier.process.usage import descendants, processor_seconds

LEAST = 120.0  # seconds that a backend call gets, unless the user says otherwise
FIRST = 600.0  # the same before any call has come back, as long as something is computed
_TIMES_SLOWEST = 10
_IDLE = 60.0  # seconds in which a process that waits computes nothing, or next to nothing:
_NOTHING = 0.05  # of one core
_SAMPLE = 5.0  # seconds between two looks at how much is computed
_STOPPED = 2.0  # seconds between two looks from which on this process must have been stopped itself
_STACK = 2.0  # seconds that a hanging process has to write its stack
_AT_ONCE = 0.2  # the same where it goes on taking memory


class Watch:
    """Given to `run_step` as `look`. `hung` is the call for which the process was killed, if it was; `seconds` how
    long that call had been running, and `stack` where it was, as a traceback. `exhausted` says that it was killed not
    for the time, but for the memory that it took, which was so many bytes."""

    def __init__(self, status: RunningCalls, stacks: Path, terms: Terms) -> None:
        self._status, self._stacks, self._terms = status, stacks, terms
        self.hung: Running | None = None
        self.seconds = 0.0
        self.stack = ""
        self.exhausted = 0
        self._memory = MemoryWatch() if terms.memory is None else None
        self._last = time.monotonic()
        self._pauses: list[tuple[float, float]] = []  # (when, seconds) of the times that nothing ran at all
        self._computed: list[tuple[float, float]] = []  # (after how many seconds of the call, processor seconds)
        self._sampled: float | None = None  # when the call began that these are of

    def limit(self, call: Running) -> float:
        """Seconds after which this call counts as one that never ends."""
        keep = self._terms.keep
        if keep is not None and keep.patience is not None and (keep.number, keep.call) == (call.number, call.call):
            return keep.patience
        if self._terms.timeout:
            return self._terms.timeout
        slowest = self._status.slowest
        if not slowest and self._sampled == call.begun and not self._is_idle():
            return FIRST  # nothing tells how long a call of this backend takes
        return max(LEAST, _TIMES_SLOWEST * slowest)

    def _sample(self, pid: int, call: Running, lasted: float) -> None:
        """Notes how much has been computed, in the last minute before a decision could be due and after it."""
        if self._sampled != call.begun:
            self._sampled, self._computed = call.begun, []
        if not self._computed or lasted - self._computed[-1][0] >= _SAMPLE:
            self._computed.append((lasted, processor_seconds([pid, *descendants(pid)])))

    def _is_idle(self) -> bool:
        """Whether next to nothing was computed in the last minute of the call. (It is less than before where a process
        has ended that nobody waited for: then something was going on.)"""
        until, now = self._computed[-1]
        since, before = next((s for s in reversed(self._computed) if s[0] <= until - _IDLE), self._computed[0])
        return 0 <= now - before <= _NOTHING * max(until - since, _SAMPLE)

    def __call__(self, pid: int) -> float | None:
        now = time.monotonic()
        if now - self._last > _STOPPED:  # Ctrl-Z: the script stood still as well
            self._pauses.append((now, now - self._last))
        self._last = now
        if self.hung is not None or self.exhausted:
            return None
        soon = self._look_at_memory(pid)
        if self.exhausted or self._status.has_ended:
            return None
        for call in self._status.running():
            if call.stage is Stage.COMPARE and call.call == 0:  # eager ended when the script was run without the tool
                continue
            lasted = now - call.begun - sum(seconds for when, seconds in self._pauses if when > call.begun)
            if lasted > LEAST - _IDLE - _SAMPLE and not self._status.slowest and not self._terms.timeout:
                self._sample(pid, call, lasted)
            if lasted > self.limit(call):
                self._end(pid, call, lasted)
                break
        return soon

    def _look_at_memory(self, pid: int) -> float | None:
        """Ends the script, and the call that was begun last, if there is one, where it goes on taking memory."""
        if self._memory is None:
            return None
        soon = self._memory.look([pid, *descendants(pid)])
        if self._memory.exhausted:
            self.exhausted = self._memory.taken
            running = [] if self._status.has_ended else self._status.running()
            if running:
                self._end(pid, running[0], time.monotonic() - running[0].begun, _AT_ONCE)
            else:
                kill_tree(pid)
        return soon

    def _end(self, pid: int, call: Running, lasted: float, patience: float = _STACK) -> None:
        """Ends the script for this call. Whatever comes of the request for its stack: a signal may end what waits."""
        self.hung, self.seconds = call, lasted
        os.kill(pid, ASK)
        until, size = time.monotonic() + patience, 0
        while time.monotonic() < until:
            time.sleep(0.1)
            before, size = size, self._stacks.stat().st_size if self._stacks.exists() else 0
            if size and size == before:
                break
        kill_tree(pid)
        self.stack = read_stack(self._stacks, call.thread)


# Somebody else's doing: the user, a shell, a scheduler.
_FROM_OUTSIDE = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT}


def sent_from_outside(number: int | None) -> bool:
    """Whether a process that died of this signal was ended by somebody, not by a fault."""
    return number in _FROM_OUTSIDE
