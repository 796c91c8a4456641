"""Wraps every backend call of the user's script: saves the graph before the call, and logs the outcome."""

from __future__ import annotations

import functools
import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from minifier.capturing.backend_reference import reference
from minifier.capturing.captured import EVENTS, EventLog
from minifier.capturing.compared_calls import ComparedCalls, Training
from minifier.capturing.comparing import ScriptCall
from minifier.capturing.graph_record import Record, RunContext
from minifier.capturing.process_state import Baseline
from minifier.capturing.running_calls import RunningCalls, Token
from minifier.capturing.script_limits import Terms
from minifier.capturing.silent_fallbacks import LoggedLines, watch_of, watched
from minifier.data.case import TORCH_COMPILE, BackendReference
from minifier.data.failure import Difference, Stage
from minifier.data.failure.observed import text
from minifier.process.descriptors import Reserve
from minifier.process.interrupts import interrupts_left_to_another
from minifier.process.logs import LogLine
from minifier.process.machine import spare_memory
from minifier.torch_side.compare.results import call_and_wait, random_states
from minifier.torch_side.torch_private import aot, autograd, dynamo, modes

_MAX_LOGGED_RUNS = 64  # of each graph: a later failure may depend on how often it was called


class BackendCall:
    """Context of a backend's compilation or a compiled function's call: marks the call as running, collects its logs.

    `inputs` are the graph's. `call` counts a compiled function's calls from 1, and is 0 while compiling. `matched` is
    the first logged line that --match-log matches, or the line about a fallback that --fallbacks asks for.
    """

    __slots__ = ("call", "ending", "inputs", "matched", "observer", "outer", "record", "stage", "token", "versions")

    def __init__(self, observer: Observer, record: Record, stage: Stage, inputs: Sequence[Any], call: int = 0) -> None:
        self.observer, self.record, self.stage, self.inputs, self.call = observer, record, stage, inputs, call
        self.versions = _versions(inputs)
        self.matched = ""
        self.outer: BackendCall | None = None
        self.token: Token | None = None
        self.ending: Callable[[], None] | None = None

    def __enter__(self) -> BackendCall:
        observer = self.observer
        mine = observer.mine
        self.outer, mine.call = mine.call, self
        observer.open.append(self)
        self.token = observer.status.enter(self.stage, self.record.number, self.call)
        if self.outer is None:
            self.ending = interrupts_left_to_another(lambda: observer.status.lasts_long)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        observer = self.observer
        if self.ending is not None:
            self.ending()
        observer.status.leave(self.token)
        observer.mine.call = self.outer
        if kind is None and self.outer is None:
            observer.mine.logged_error = None
        observer.open.remove(self)

    @property
    def has_changed_inputs(self) -> bool:
        """Whether the call has changed an input in place since this object was made."""
        return _versions(self.inputs) != self.versions


class _ThreadState(threading.local):
    call: BackendCall | None = None  # the innermost
    comparing = False
    logged_error: BaseException | None = None


class Observer:
    """The hook around backend calls. Each graph gets a sub-folder of `folder`; `events.jsonl` logs the events.

    `on_failure` is called after a failure was logged, with the exception, or with None for a wrong result.
    """

    def __init__(
        self,
        folder: Path,
        script: str,
        baseline: Baseline,
        terms: Terms = Terms(),  # noqa: B008 - it is frozen
        status: RunningCalls | None = None,
        on_failure: Callable[[Record, BaseException | None], None] = lambda record, error: None,
    ) -> None:
        self.on_failure = on_failure
        log = EventLog(folder / EVENTS, forgiving=terms.in_place)
        self.run = RunContext(folder, script, baseline, terms, status or RunningCalls(), log)
        self.terms, self.status, self.log = terms, self.run.status, log
        self._compared: dict[Record, None] = {}
        self._compared_calls = ComparedCalls(terms.comparing, self.log) if terms.comparing is not None else None
        self.logged_lines = LoggedLines(self.log, terms.match_log)
        self.reserve = Reserve()
        self.count = self.graphs = 0  # all numbered graphs; Dynamo's graphs
        self.calls: dict[int, int] = {}  # how often each of Dynamo's graphs was called, by its place
        self.backends: list[Any] = []  # the backends' functions
        self.training = Training(lambda number: self.log.write("trained", number=number))
        self.mine = _ThreadState()
        self.open: list[BackendCall] = []
        self._aot: AotObserver | None = None
        self.closed = False

    def __call__(
        self, compiler_fn: Any, gm: torch.fx.GraphModule, inputs: Sequence[Any], call: Callable[[], Callable[..., Any]]
    ) -> Callable[..., Any]:
        if not self.is_watching:
            return call()
        if self._aot is None:
            self._aot = AotObserver(self)
        original_inputs = list(inputs)  # a backend may replace or remove items of its list
        record = self.record(gm, original_inputs, lambda: (reference(compiler_fn, self.run.baseline.path), ""))
        record.backend_object = dynamo.asked_backend(compiler_fn).function
        self.backends.append(record.backend_object)
        compiled = self.around_compile(record, Stage.COMPILE, original_inputs, lambda: self._watched(record, call, gm))
        return self.observed(record, compiled)

    def _watched(self, record: Record, call: Callable[[], Any], gm: torch.fx.GraphModule | None = None) -> Any:
        """Call the backend or the compiled function, and log a fallback. `gm` is the graph, if the call compiles."""
        is_looked_at = self._compared_calls is not None or self.terms.silent_fallbacks
        watch = watch_of(record.backend_object, record.backend.imports) if is_looked_at else None
        result, seen = watched(watch, record.number, call, gm)
        if seen is not None:
            self.log.write("fell back", fallback=asdict(seen))
            counts = self.terms.silent_fallbacks and not seen.is_plain
            if counts and self.mine.call is not None and not self.mine.call.matched:
                self.mine.call.matched = seen.line
        return result

    def record(
        self, gm: torch.fx.GraphModule, inputs: Sequence[Any], refer: Callable[[], tuple[BackendReference, str]]
    ) -> Record:
        """Create the record of the next graph for a backend. `refer` is as in `Record`."""
        self.count, self.graphs = self.count + 1, self.graphs + 1
        return Record(self.run, self.count, gm, inputs, refer, self.graphs)

    def traced(self, compiler_fn: Any, find_graph: dynamo.FindGraph) -> None:
        """Save the graph at whose last op Dynamo raised an exception, with the backend eager.

        The log shows whether the exception ended the script: then no other graph was compiled afterwards.
        """
        if not self.is_watching:
            return
        with self.reserve, spare_memory():
            try:
                traced = find_graph()
            except Exception as error:  # noqa: BLE001 - it must not take the place of Dynamo's own
                self.log.write("not traced", reason=text(error))
                return
            if traced is None:
                return
            self.count += 1
            backend = replace(TORCH_COMPILE, dynamic=dynamo.asked_backend(compiler_fn).dynamic)
            record = Record(self.run, self.count, traced.module, traced.inputs, lambda: (backend, ""), place=0)
            record.keep(traced.inputs, 0)
        self.log.write("traced", **record.facts, unsaved=record.unsaved)

    def close(self) -> None:
        """Stop observing, and remove the hook around AOTAutograd."""
        self.closed = True
        if self._aot is not None:
            self._aot.end()
            self._aot = None

    @property
    def is_watching(self) -> bool:
        """Whether the script itself is at work now: no forked process, no comparison."""
        return os.getpid() == self.log.pid and not (self.mine.comparing or self.closed)

    def around_compile(self, record: Record, stage: Stage, inputs: Sequence[Any], call: Callable[[], Any]) -> Any:
        """Call the compiler for the record's graph, log the outcome and return the result."""
        self.log.write("compiling", **record.facts, of=id(record.backend_object))
        begun = time.perf_counter()
        if self._keeps(record, 0):
            record.keep(inputs, 0)
        elif self.terms.comparing is not None and record.place in self.terms.comparing.changed:
            record.keep(inputs, 1)  # what the first call is compared with
        current = BackendCall(self, record, stage, inputs)
        compiled = self._called(current, call)
        ended = time.perf_counter()
        if self.run.compiled_at is None:
            self.run.compiled_at = ended
        self.log.write("compiled", number=record.number, seconds=ended - begun)
        if record.place and current.has_changed_inputs:
            self.log.write("changed", number=record.number)
        if current.matched:
            record.fell_back(stage, current.matched, inputs)
        return compiled

    def _called(self, current: BackendCall, call: Callable[[], Any]) -> Any:
        """Call the compiler, or what it compiled; log a failure, and save its Case."""
        record, stage, number = current.record, current.stage, current.call
        try:
            with current:
                return call()
        except BaseException as error:
            if dynamo.is_failure(error) and self._is_new(error):
                has_changed = number > 0 and current.has_changed_inputs
                with self.reserve:
                    record.failed(stage, error, current.inputs, number, has_changed)
                self.on_failure(record, error)
            elif not number:
                self.log.write("declined", number=record.number, type=type(error).__name__)
            raise

    def _keeps(self, record: Record, call: int) -> bool:
        """Whether the inputs of this call must be saved first; call 0 is the compilation."""
        keep = self.terms.keep
        return keep is not None and call == keep.call and record.number in (keep.number, keep.forward)

    def _is_new(self, error: BaseException) -> bool:
        """Whether no nested call has logged this failure already."""
        logged, current = self.mine.logged_error, dynamo.backend_error(error)
        # Released once it leaves the outermost call: its frames keep the script's memory alive.
        self.mine.logged_error = current if self.mine.call is not None else None
        return logged is not current

    def observed(self, record: Record, compiled: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap the compiled function to log the outcome of its calls."""

        @functools.wraps(compiled, updated=())
        def run(*args: Any) -> Any:
            if not self.is_watching:
                return compiled(*args)
            self._look_back(record)
            chosen = self._chooses(record, args)
            if chosen and not record.has_kept(record.runs + 1):
                record.keep(args, record.runs + 1)
            nodes_before = self.training.before(record.number, args)
            random, begun = random_states() if chosen else {}, time.perf_counter()
            first = record.runs == 0
            run_it = functools.partial(call_and_wait, compiled, args) if chosen else functools.partial(compiled, *args)
            result = self.around_run(
                record, Stage.RUN, args, (lambda: self._watched(record, run_it)) if first else run_it
            )
            seconds = time.perf_counter() - begun
            with record.undisturbed():
                record.kept_results.look(args, result, record.runs)
                self.training.after(record.number, args, result, nodes_before)
            if chosen:
                self._compare(record, compiled, ScriptCall(args, result, random), seconds)
            return result

        return run

    def _chooses(self, record: Record, args: Sequence[Any]) -> bool:
        if self._compared_calls is None or not record.may_be_worse or modes.is_capturing():
            return False
        return self._compared_calls.chooses(record, args)

    def _compare(self, record: Record, compiled: Callable[..., Any], call: ScriptCall, seconds: float) -> None:
        """Compare the results of a finished call with eager's; the script's call took `seconds`.

        The status is COMPARE meanwhile: a crash then is not the script's failure.
        """
        assert self._compared_calls is not None and self.terms.comparing is not None
        self._compared[record] = None
        self.mine.comparing = record.comparing = True
        token = self.status.enter(Stage.COMPARE, record.number, 0)
        try:
            is_wrong = record.compare(compiled, self.terms.comparing, call)
        finally:
            self.status.leave(token, counts=False)
            self.mine.comparing = record.comparing = False
            self._compared_calls.compared(seconds)
        if is_wrong:
            self.on_failure(record, None)
        elif not record.has_failed:
            with record.undisturbed():
                record.kept_results.keep(call.result)

    def _look_back(self, record: Record) -> None:
        """Note a result of the graph that the script still has, and that a later call has written over."""
        differences: tuple[Difference, ...] = ()
        with record.undisturbed():
            differences = record.kept_results.lost()
        if not differences or record.has_failed:
            return
        self.mine.comparing = True
        record.note_overwritten(differences)
        self.mine.comparing = False
        if record.has_failed:
            self.on_failure(record, None)

    def look_back(self) -> None:
        """Look at the results of all graphs, at the end of the script."""
        if self.is_watching:
            for record in self._compared:
                self._look_back(record)

    def around_run(self, record: Record, stage: Stage, args: Sequence[Any], call: Callable[[], Any]) -> Any:
        """Call the compiled graph, log the outcome and return the result. The call may empty the list `args`."""
        record.runs = number = record.runs + 1
        if record.place:
            self.calls[record.place] = number
        record.inference = torch.is_inference_mode_enabled()
        if number <= _MAX_LOGGED_RUNS:
            self.log.write("ran", number=record.number)
        if self.terms.keep_all or self._keeps(record, number):
            record.keep(args, number)
        current = BackendCall(self, record, stage, args, number)
        result = self._called(current, lambda: _without_open_transforms(call))
        if current.matched:
            record.fell_back(stage, current.matched, args, number, current.has_changed_inputs)
        return result

    def trains(self, roots: Sequence[Any]) -> None:
        """Log which graphs a backward pass of the script reaches from these roots."""
        if self.is_watching:
            self.training.passes(roots)

    def heard(self, logged: LogLine) -> None:
        """Note a line that the script or a backend has logged."""
        call = self.mine.call
        if os.getpid() != self.log.pid:
            return
        if call is None and self.terms.match_log is not None and len(self.open) == 1:
            call = self.open[0]  # a thread of the backend's own may have logged the line
        if call is not None and self.logged_lines.matches(logged, call.record.number):
            call.matched = call.matched or logged.line


def _without_open_transforms(call: Callable[[], Any]) -> Any:
    with autograd.transforms_ended():
        return call()


def _versions(args: Sequence[Any]) -> list[int]:
    """Return how often each tensor was changed in place; inference tensors keep no version."""
    try:
        return [a._version for a in args]  # takes a tenth of the time, if all arguments have a version
    except (AttributeError, RuntimeError):
        pass
    return [a._version for a in args if isinstance(a, torch.Tensor) and not a.is_inference()]


@dataclass(slots=True)
class _SplitGraph:
    """A Dynamo graph that AOTAutograd splits, and the record of its backward pass once that is compiled."""

    forward: Record
    backward: Record | None = None


class AotObserver:
    """The hook around AOTAutograd's compilers; each backward graph gets its own number, above its forward's."""

    def __init__(self, observer: Observer) -> None:
        self.observer = observer
        self.end = aot.observe_aot_compilers(self.begin, self.compiling, self.running)

    def begin(self) -> _SplitGraph | None:
        """Return the state for the graph whose backend calls AOTAutograd, or None outside a backend call."""
        call = self.observer.mine.call
        return _SplitGraph(call.record) if call is not None and call.record.forward is None else None

    def _is_watching(self, pair: _SplitGraph | None) -> bool:
        # Autograd runs a comparison's backward pass in its own threads, unknown to the observer's thread state.
        return pair is not None and self.observer.is_watching and not pair.forward.comparing

    def compiling(
        self,
        pair: _SplitGraph | None,
        part: str,
        gm: torch.fx.GraphModule,
        inputs: Sequence[Any],
        call: Callable[[], Any],
    ) -> Any:
        """Run a compiler; for a backward graph the forward's Case is saved before, with a backward pass."""
        if part != aot.BACKWARD or pair is None or not self._is_watching(pair):
            return call()
        self.observer.count += 1
        pair.backward = pair.forward.of_backward(self.observer.count)
        return self.observer.around_compile(pair.backward, Stage.BACKWARD_COMPILE, inputs, call)

    def running(self, pair: _SplitGraph, args: list[Any], call: Callable[[], Any]) -> Any:
        """Run a compiled backward."""
        if pair.backward is None or not self._is_watching(pair):
            return call()
        return self.observer.around_run(pair.backward, Stage.BACKWARD_RUN, args, call)
