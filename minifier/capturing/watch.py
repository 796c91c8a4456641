"""Supervise the script's process: kill it if a backend call hangs or exhausts memory; find the call that it died in."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from minifier.capturing.running_calls import Running, RunningCalls
from minifier.capturing.terms import Terms
from minifier.failure import Failure, Fingerprint, Kind, Stage
from minifier.process.forked_step import StepEnd, kill_tree
from minifier.process.memory import MemoryWatch
from minifier.process.stacks import ASK, read_stack
from minifier.process.usage import descendants, processor_seconds

STACKS = "stacks.txt"
MIN_LIMIT_SECONDS = 120.0  # for a backend call, unless the user sets a timeout
FIRST_LIMIT_SECONDS = 600.0  # until the first call has returned, while the process is computing
_SLOWEST_CALL_FACTOR = 10
_IDLE_SECONDS = 60.0  # a process is idle if, over this time,
_IDLE_CORE_FRACTION = 0.05  # it uses at most this much of one core
_SAMPLE_SECONDS = 5.0  # between two samples of processor time
_SUSPEND_GAP_SECONDS = 2.0  # a longer gap between polls means that this process was suspended (Ctrl-Z)
_STACK_DUMP_SECONDS = 2.0  # that a hanging process gets to write its stack
_OUT_OF_MEMORY_DUMP_SECONDS = 0.2  # the same for a process that takes ever more memory


class Watch:
    """Polls the script's process: the `look` of `run_step`.

    hung: the backend call for which the process was killed, or None.
    seconds: how long that call had been running.
    stack: the call's traceback.
    exhausted: bytes in use when the process was killed for its memory; 0 if it was not.
    """

    def __init__(self, status: RunningCalls, stacks: Path, terms: Terms) -> None:
        self._status, self._stacks, self._terms = status, stacks, terms
        self.hung: Running | None = None
        self.seconds = 0.0
        self.stack = ""
        self.exhausted = 0
        self._memory = MemoryWatch() if terms.memory is None else None
        self._last_poll = time.monotonic()
        self._pauses: list[tuple[float, float]] = []  # (end, seconds) of each suspension
        self._samples: list[tuple[float, float]] = []  # (seconds since the call began, processor seconds)
        self._sampled_call: float | None = None  # when the sampled call began

    def limit(self, call: Running) -> float:
        """Return the seconds after which this call counts as hung."""
        keep = self._terms.keep
        if keep is not None and keep.patience is not None and (keep.number, keep.call) == (call.number, call.call):
            return keep.patience
        if self._terms.timeout:
            return self._terms.timeout
        slowest = self._status.slowest
        if not slowest and self._sampled_call == call.begun and not self._is_idle():
            return FIRST_LIMIT_SECONDS  # no earlier call shows how long this backend takes
        return max(MIN_LIMIT_SECONDS, _SLOWEST_CALL_FACTOR * slowest)

    def _sample(self, pid: int, call: Running, lasted: float) -> None:
        """Record the processor seconds of the process tree."""
        if self._sampled_call != call.begun:
            self._sampled_call, self._samples = call.begun, []
        if not self._samples or lasted - self._samples[-1][0] >= _SAMPLE_SECONDS:
            self._samples.append((lasted, processor_seconds([pid, *descendants(pid)])))

    def _is_idle(self) -> bool:
        """Whether the process tree has used almost no processor time for the last `_IDLE_SECONDS`.

        The total shrinks when a process ends that nobody waited for: such a tree was not idle.
        """
        until, total = self._samples[-1]
        first = self._samples[0]
        since, total_before = next((s for s in reversed(self._samples) if s[0] <= until - _IDLE_SECONDS), first)
        return 0 <= total - total_before <= _IDLE_CORE_FRACTION * max(until - since, _SAMPLE_SECONDS)

    def __call__(self, pid: int) -> float | None:
        now = time.monotonic()
        if now - self._last_poll > _SUSPEND_GAP_SECONDS:  # Ctrl-Z suspends the script as well
            self._pauses.append((now, now - self._last_poll))
        self._last_poll = now
        if self.hung is not None or self.exhausted:
            return None
        poll_seconds = self._look_at_memory(pid)
        if self.exhausted or self._status.has_ended:
            return None
        for call in self._status.running():
            if call.stage is Stage.COMPARE and call.call == 0:  # no limit: eager code is expected to end
                continue
            lasted = now - call.begun - sum(seconds for when, seconds in self._pauses if when > call.begun)
            # Sampling starts early enough for `_is_idle` at the time of the first decision.
            first_sample = MIN_LIMIT_SECONDS - _IDLE_SECONDS - _SAMPLE_SECONDS
            if lasted > first_sample and not self._status.slowest and not self._terms.timeout:
                self._sample(pid, call, lasted)
            if lasted > self.limit(call):
                self._end(pid, call, lasted)
                break
        return poll_seconds

    def _look_at_memory(self, pid: int) -> float | None:
        """Kill the script if it exhausts memory, and blame the backend call begun last; return when to poll again."""
        if self._memory is None:
            return None
        poll_seconds = self._memory.look([pid, *descendants(pid)])
        if self._memory.exhausted:
            self.exhausted = self._memory.taken
            running = [] if self._status.has_ended else self._status.running()
            if running:
                self._end(pid, running[0], time.monotonic() - running[0].begun, _OUT_OF_MEMORY_DUMP_SECONDS)
            else:
                kill_tree(pid)
        return poll_seconds

    def _end(self, pid: int, call: Running, lasted: float, dump_seconds: float = _STACK_DUMP_SECONDS) -> None:
        """Ask for the stack of the hung call, then kill the script, even if the signal has made the call return."""
        self.hung, self.seconds = call, lasted
        os.kill(pid, ASK)
        deadline, size = time.monotonic() + dump_seconds, 0
        while time.monotonic() < deadline:
            time.sleep(0.1)
            last_size, size = size, self._stacks.stat().st_size if self._stacks.exists() else 0
            if size and size == last_size:
                break
        kill_tree(pid)
        self.stack = read_stack(self._stacks, call.thread)


# Sent by the user, a shell or a scheduler.
_SIGNALS_FROM_OUTSIDE = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT}


def fatal_call(status: RunningCalls, end: StepEnd, watch: Watch, stacks: Path) -> Running | None:
    """Return the backend call in which the process died; None if it ended by itself or was stopped from outside."""
    if watch.hung is not None:
        return watch.hung
    running = status.running()
    if not running or status.has_ended or end.interrupted or end.signal in _SIGNALS_FROM_OUTSIDE:
        return None
    dying = [call for call in running if read_stack(stacks, call.thread, dying=True)]
    return (dying or running)[0]


def how_it_ended(end: StepEnd, watch: Watch, folder: Path, call: Running) -> Failure:
    """Return the failure of a call in which the process was killed or died."""
    if watch.exhausted:
        fingerprint = Fingerprint(call.stage, Kind.OUT_OF_MEMORY, message="no more memory")
        message = f"it had taken {watch.exhausted / 2**30:.1f} GiB"
        return Failure(fingerprint, Kind.OUT_OF_MEMORY.value, message, watch.stack)
    if watch.hung is not None:
        fingerprint = Fingerprint(call.stage, Kind.TIMEOUT, message="no end")
        return Failure(fingerprint, Kind.TIMEOUT.value, f"no end after {watch.seconds:.0f} s", watch.stack)
    kind, how = Kind.EXIT, f"exit status {end.status}"
    if end.signal is not None:
        kind, how = Kind.SIGNAL, signal.Signals(end.signal).name
    return Failure(Fingerprint(call.stage, kind, message=how), kind.value, how, read_stack(folder / STACKS))
