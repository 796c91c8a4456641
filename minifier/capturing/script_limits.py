"""Supervise the script's process by its terms: limits of time and memory, and which failures count."""

from __future__ import annotations

import math
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from minifier.capturing.running_calls import Running, RunningCalls
from minifier.data.case.switches import assignments
from minifier.data.failure import Failure, Stage, Tolerance
from minifier.data.failure.evidence import exit_status, fatal_signal, hang, no_memory
from minifier.data.failure.fingerprint import failure_of
from minifier.process.child import Child, signal_name
from minifier.process.descendants import processor_seconds, tree
from minifier.process.descriptors import StackFile, read_stack
from minifier.process.forked_step import StepEnd
from minifier.process.machine import MemoryWatch


@dataclass(frozen=True, slots=True)
class Keep:
    """A call of a compiled graph, or its compilation (call 0), whose inputs must be saved beforehand.

    patience: seconds until a call that is known to hang counts as hung; None: as for any other call.
    forward: for a backward pass, the number of its graph, whose inputs are saved.
    """

    number: int
    call: int
    patience: float | None = None
    forward: int | None = None


@dataclass(frozen=True, slots=True)
class Comparing:
    """How results are compared with eager's. Graphs are Dynamo's, counted from 1.

    trained: graphs that backward passes reached in an earlier run of the script: their gradients are compared.
    changed: graphs whose inputs the backend changed while it compiled them.
    left_out: graphs that are not compared, because the process died in their comparison.
    last_calls: how often each graph was called in an earlier run.
    seconds: once comparing has taken so long, only first calls of the first few graphs are compared.
    """

    measure: Tolerance
    trained: frozenset[int] = frozenset()
    changed: frozenset[int] = frozenset()
    left_out: frozenset[int] = frozenset()
    last_calls: Mapping[int, int] = field(default_factory=dict)
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Terms:
    """Limits and options of a script's run.

    timeout: seconds for each backend call; None: `Watch` chooses.
    memory: bytes beyond the process's initial memory; None: any reservation, and use of most of the free memory.
    match_log: a regular expression; a matching log line is a failure.
    silent_fallbacks: a fallback that the backend logs is a failure.
    keep: the call whose inputs are saved beforehand.
    keep_all: save the inputs of every call beforehand.
    in_place: this is the user's own process, which minify's failures must not end.
    comparing: compare calls of each graph with eager.
    in_eager: torch.compile runs everything in eager mode.
    watched: note what the script sees of its variables; seed random numbers, so that two such runs draw the same.
    other_rounding: each op rounds in another way, and clocks run faster: what differs then is noise.
    module_calls: calls of modules from outside of modules are compiled, where another backend than the script's does.
    variables: environment variables that are set before the script runs.
    seconds: the run is stopped after this time.
    """

    timeout: float | None = None
    memory: int | None = None
    match_log: str | None = None
    silent_fallbacks: bool = False
    keep: Keep | None = None
    keep_all: bool = False
    in_place: bool = False
    comparing: Comparing | None = None
    in_eager: bool = False
    watched: bool = False
    other_rounding: bool = False
    module_calls: bool = False
    variables: tuple[tuple[str, str], ...] = ()
    seconds: float = math.inf

    @property
    def purpose(self) -> str:
        """Why the script runs again; "" for its first run, whose output is the user's."""
        if self.comparing is not None:
            return "comparing results with eager's"
        if self.other_rounding:
            return "in eager mode, rounded differently"
        if self.in_eager:
            return "in eager mode"
        if self.keep is not None:
            return "recording the inputs of the failing call"
        if self.variables:
            return f"with {assignments(self.variables)}"
        return "compiling each module that it calls" if self.module_calls else ""


STACKS = "stacks.txt"
MIN_LIMIT_SECONDS = 120.0  # for a backend call, unless the user sets a timeout
FIRST_LIMIT_SECONDS = 300.0  # until the first call has returned, while the process is computing
_SLOWEST_CALL_FACTOR = 5
_IDLE_SECONDS = 60.0  # a process is idle if, over this time,
_IDLE_CORE_FRACTION = 0.05  # it uses at most this much of one core
_SAMPLE_SECONDS = 5.0  # between two samples of processor time
_LONG_SECONDS = 10.0  # after which a person begins to wonder
_STACK_SECONDS = 2.0  # that a hanging process gets to write its stack


class Watch:
    """Looks at the script's process for `run_step`.

    hung: the backend call that hung or took all memory, so that the process was killed; or None.
    seconds: how long that call had been running, without the time that counts for no limit.
    stack: the call's traceback.
    exhausted: bytes in use when the process was killed for its memory; else 0.
    has_lingered: whether the process was killed because it did not end after the program's own code had ended.
    is_capped: whether the process was held at its size, so that its next allocation failed.
    """

    def __init__(self, status: RunningCalls, stacks: Path, terms: Terms) -> None:
        self.stacks = StackFile(stacks, _STACK_SECONDS)
        self._status, self._terms = status, terms
        self.hung: Running | None = None
        self.seconds = 0.0
        self.stack = ""
        self.exhausted = 0
        self.has_lingered = False
        self.long_call: tuple[float, float] | None = None  # the seconds that a long call has lasted, and its limit
        self._child: Child | None = None
        self._exiting: tuple[float, float] | None = None  # (child's seconds since when it is idle, processor seconds)
        self._memory = MemoryWatch() if terms.memory is None else None
        self._excused: dict[Running, float] = {}  # `child.excused` when the call was first seen
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

    def _is_idle(self) -> bool:
        """Whether the process tree has used almost no processor time for the last `_IDLE_SECONDS`.

        If a process of the tree has ended, its time is missing from the total, which is smaller then: not idle either.
        """
        until, total = self._samples[-1]
        first = self._samples[0]
        since, total_before = next((s for s in reversed(self._samples) if s[0] <= until - _IDLE_SECONDS), first)
        return 0 <= total - total_before <= _IDLE_CORE_FRACTION * max(until - since, _SAMPLE_SECONDS)

    def take_for_hang(self) -> bool:
        """Stop a process whose backend call has lasted long: it hangs. Return False without such a call."""
        child, calls = self._child, self._status.running()
        if self.long_call is None or not calls or child is None or child.is_stopped:
            return False
        child.stop()
        self._blame(calls[0], self._status.now() - calls[0].begun)
        return True

    def __call__(self, running: Sequence[Child]) -> float | None:
        (child,) = running
        self._child = child
        if child.is_stopped:
            return None
        calls = [] if self._status.has_ended else self._status.running()
        poll_seconds = self._look_at_memory(child, calls)
        if self.exhausted:
            return None
        self.long_call = None
        for call in calls:
            excused = child.excused - self._excused.setdefault(call, child.excused)
            if call.stage is Stage.COMPARE and call.call == 0:  # no limit: eager code is expected to end
                continue
            lasted = self._status.now() - call.begun - excused
            # Sampling starts early enough for `_is_idle` at the time of the first decision.
            first_sample = MIN_LIMIT_SECONDS - _IDLE_SECONDS - _SAMPLE_SECONDS
            if lasted > first_sample and not self._status.slowest and not self._terms.timeout:
                if self._sampled_call != call.begun:
                    self._sampled_call, self._samples = call.begun, []
                if not self._samples or lasted - self._samples[-1][0] >= _SAMPLE_SECONDS:
                    self._samples.append((lasted, processor_seconds(tree(child.pid))))
            limit = self.limit(call)
            if lasted > _LONG_SECONDS:
                self.long_call = int(lasted), limit
            if lasted > limit:
                child.stop()
                self._blame(call, lasted)
                break
        self._status.lasts_long = self.long_call is not None
        if not calls and self._status.is_exiting:
            self._look_at_exit(child)
        return poll_seconds

    def _look_at_exit(self, child: Child) -> None:
        """Stop a process that waits, after the end of the program's own code, for a thread or an exit handler.

        A process that computes has as much time as it wants.
        """
        now, used = child.seconds, processor_seconds(tree(child.pid))
        since, before = self._exiting or (now, used)
        if not 0 <= used - before <= _IDLE_CORE_FRACTION * (1 + now - since):
            since, before = now, used
        self._exiting = since, before
        if now - since > (self._terms.timeout or _IDLE_SECONDS):
            self.has_lingered = True
            child.stop()

    @property
    def is_capped(self) -> bool:
        return self._memory is not None and self._memory.has_capped

    def _look_at_memory(self, child: Child, calls: Sequence[Running]) -> float | None:
        """Stop a script that exhausts memory, and blame the call begun last; return the seconds until the next poll."""
        if self._memory is None:
            return None
        poll_seconds = self._memory([child])
        self.exhausted = child.exhausted
        if self.exhausted and calls:
            self._blame(calls[0], self._status.now() - calls[0].begun)
        return poll_seconds

    def _blame(self, call: Running, lasted: float) -> None:
        """Record this call as the cause of the hang or the memory use, even if it has returned since."""
        self.hung, self.seconds = call, lasted
        self.stack = read_stack(self.stacks.path, call.thread)


# Sent by the user, a shell or a scheduler.
_SIGNALS_FROM_OUTSIDE = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT}


def fatal_call(status: RunningCalls, end: StepEnd, watch: Watch, stacks: Path) -> Running | None:
    """Return the backend call in which the process died; None after a normal end or a stop from outside."""
    if watch.hung is not None:
        return watch.hung
    running = status.running()
    is_over = status.has_ended or watch.has_lingered
    if not running or is_over or end.interrupted or end.signal in _SIGNALS_FROM_OUTSIDE:
        return None
    dying = [call for call in running if read_stack(stacks, call.thread, dying=True)]
    return (dying or running)[0]


def how_it_ended(end: StepEnd, watch: Watch, folder: Path, call: Running) -> Failure:
    """Return the failure of a call in which the process was killed or died."""
    if watch.exhausted:
        return no_memory(call.stage, watch.stack, f"it had taken {watch.exhausted / 2**30:.1f} GiB")
    stack = read_stack(folder / STACKS)
    if end.signal == signal.SIGABRT and watch.is_capped:  # as C++ ends a process where an allocation fails
        return no_memory(call.stage, stack, "it aborted when it got no more memory")
    if watch.hung is not None:
        return hang(call.stage, watch.seconds, watch.stack)
    return _death(call.stage, end.status, end.signal, stack)


def failure_of_script(end: StepEnd, final: Mapping[str, Any]) -> Failure | None:
    """Return how the script itself failed, by its last event and the end of its process.

    None without a failure, or after a stop from outside.
    """
    if end.interrupted or end.signal in _SIGNALS_FROM_OUTSIDE:
        return None
    if final.get("links"):
        return failure_of(Stage.COMPILE, final["links"], final["traceback"])
    status = final.get("status", end.status)
    return _death(Stage.COMPILE, status, end.signal) if status or end.signal is not None else None


def _death(stage: Stage, status: int | None, number: int | None, stack: str = "") -> Failure:
    """Return the failure of a process that ended with this status, or was killed by the signal of this number."""
    return exit_status(stage, status, stack) if number is None else fatal_signal(stage, signal_name(number), stack)
