"""Wraps every backend call of the user's script: saves the graph before the call, and logs the outcome."""

from __future__ import annotations

import functools
import importlib
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from minifier.capturing.aot import AotObserver
from minifier.capturing.backend_calls import BackendCall, DynamoGraph, ScriptCall
from minifier.capturing.backend_reference import reference
from minifier.capturing.captured import EVENTS, EventLog
from minifier.capturing.compared_calls import ComparedCalls, Training
from minifier.capturing.graph_record import Record
from minifier.capturing.process_state import Baseline
from minifier.capturing.running_calls import RunningCalls
from minifier.capturing.script_limits import Terms
from minifier.capturing.silent_fallbacks import LoggedLines, fallback, is_unchanged, parts_of, watch_of
from minifier.data.case import TORCH_COMPILE, BackendReference
from minifier.data.failure import Difference, Stage
from minifier.data.failure.observed import text
from minifier.process.descriptors import Reserve
from minifier.process.logs import LogLine
from minifier.process.machine import spare_memory
from minifier.torch_side.compare.results import call_and_wait, random_states
from minifier.torch_side.torch_private.autograd import transforms_ended
from minifier.torch_side.torch_private.dynamo import (
    FindGraph,
    asked_backend,
    backend_error,
    compile_module_calls,
    is_failure,
)
from minifier.torch_side.torch_private.modes import is_capturing

_MAX_LOGGED_RUNS = 64  # of each graph: a later failure may depend on how often it was called


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
        self.folder, self.script = folder, script
        self.baseline, self.terms, self.keep = baseline, terms, terms.keep
        self.status = status or RunningCalls()
        self.log = EventLog(folder / EVENTS, forgiving=terms.in_place)
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
        self._compiled_at: float | None = None
        self._trains = False

    def __call__(
        self,
        compiler_fn: Any,
        gm: torch.fx.GraphModule,
        inputs: Sequence[Any],
        call: Callable[[], Callable[..., Any]],
    ) -> Callable[..., Any]:
        if not self.is_watching:
            return call()
        if self._aot is None:
            self._aot = AotObserver(self)
        original_inputs = list(inputs)  # a backend may replace or remove items of its list
        record = self.record(gm, original_inputs, lambda: (reference(compiler_fn, self.baseline.path), ""))
        record.backend_object = asked_backend(compiler_fn).function
        self.backends.append(record.backend_object)
        if self._compared_calls is not None or self.terms.silent_fallbacks:
            record.watch = lambda: watch_of(compiler_fn, record.backend)
        compiled = self.around_compile(record, Stage.COMPILE, original_inputs, lambda: self._watched(record, call, gm))
        return self.observed(record, compiled)

    def _watched(self, record: Record, call: Callable[[], Any], gm: torch.fx.GraphModule | None = None) -> Any:
        """Call the backend or the compiled function, and log a fallback. `gm` is the graph, if the call compiles."""
        watch = record.watch()
        if watch is None:
            return call()
        before = parts_of(gm)
        with watch:
            result = call()
        if (seen := fallback(watch, is_unchanged(result, gm, before), gm is None)) is not None:
            self.log.write("fell back", number=record.number, line=watch.first_line, **asdict(seen))
            counts = self.terms.silent_fallbacks and not seen.is_plain
            if counts and self.mine.call is not None and not self.mine.call.matched:
                self.mine.call.matched = watch.first_line
        return result

    def record(
        self,
        gm: torch.fx.GraphModule,
        inputs: Sequence[Any],
        refer: Callable[[], tuple[BackendReference, str]],
    ) -> Record:
        """Create the record of the next graph for a backend. `refer` is as in `DynamoGraph`."""
        self.count, self.graphs = self.count + 1, self.graphs + 1
        return Record(self, self.count, gm, inputs, DynamoGraph(refer, self.graphs))

    def record_backward(self, forward: Record) -> Record:
        """Create the record of a graph's backward pass, with a number of its own."""
        self.count += 1
        return forward.of_backward(self.count)

    def traced(self, compiler_fn: Any, find_graph: FindGraph) -> None:
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
            backend = replace(TORCH_COMPILE, dynamic=asked_backend(compiler_fn).dynamic)
            origin = DynamoGraph(lambda: (backend, ""), place=0)
            record = Record(self, self.count, traced.module, traced.inputs, origin)
            record.keep(traced.inputs, 0)
        facts = {"ops": record.ops, "backend": record.backend.name, "unsaved": record.unsaved}
        self.log.write("traced", number=record.number, **facts)

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
        forward = record.forward.number if record.forward is not None else None
        facts = {"ops": record.ops, "backend": record.backend.name, "of": id(record.backend_object), "forward": forward}
        self.log.write("compiling", number=record.number, **facts)
        begun = time.perf_counter()
        if self._keeps(record, 0):
            record.keep(inputs, 0)
        elif self.terms.comparing is not None and record.place in self.terms.comparing.changed:
            record.keep(inputs, 1)  # what the first call is compared with
        versions_before = _versions(inputs)
        try:
            with BackendCall(self, record, stage) as current:
                compiled = call()
        except BaseException as error:
            if is_failure(error) and self._is_new(error):
                with self.reserve:
                    record.failed(stage, error, inputs)
                self.on_failure(record, error)
            else:
                self.log.write("declined", number=record.number, type=type(error).__name__)
            raise
        ended = time.perf_counter()
        self._compiled_at = ended if self._compiled_at is None else self._compiled_at
        self.log.write("compiled", number=record.number, seconds=ended - begun)
        if record.place and _versions(inputs) != versions_before:
            self.log.write("changed", number=record.number)
        if current.matched:
            record.fell_back(stage, current.matched, inputs)
        return compiled

    def seconds_since_compiled(self) -> float:
        """Return the seconds since the end of the script's first compilation; 0 before."""
        return 0.0 if self._compiled_at is None else round(time.perf_counter() - self._compiled_at, 3)

    def _keeps(self, record: Record, call: int) -> bool:
        """Whether the inputs of this call must be saved first; call 0 is the compilation."""
        keep = self.keep
        return keep is not None and call == keep.call and record.number in (keep.number, keep.forward)

    def _is_new(self, error: BaseException) -> bool:
        """Whether no nested call has logged this failure already."""
        logged, current = self.mine.logged_error, backend_error(error)
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
        """Whether the record's next call is compared with eager."""
        if self._compared_calls is None or not record.may_be_worse or is_capturing():
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
        versions_before = _versions(args)
        try:
            with BackendCall(self, record, stage, number) as current, transforms_ended():
                result = call()
        except BaseException as error:
            if is_failure(error) and self._is_new(error):
                with self.reserve:
                    record.failed(stage, error, args, number, _versions(args) != versions_before)
                self.on_failure(record, error)
            raise
        if current.matched:
            record.fell_back(stage, current.matched, args, number, _versions(args) != versions_before)
        return result

    def trains(self, roots: Sequence[Any]) -> None:
        """Log that the script runs a backward pass from these roots."""
        if not self.is_watching:
            return
        if not self._trains:
            self._trains = True
            self.log.write("backward")
        self.training.passes(roots)

    def heard(self, logged: LogLine) -> None:
        """Note a line that the script or a backend has logged."""
        if os.getpid() == self.log.pid:
            self.logged_lines.heard(logged, self.mine.call, self.open)


def _versions(args: Sequence[Any]) -> list[int]:
    """Return how often each tensor was changed in place; inference tensors keep no version."""
    try:
        return [a._version for a in args]  # takes a tenth of the time, if all arguments have a version
    except (AttributeError, RuntimeError):
        pass
    return [a._version for a in args if isinstance(a, torch.Tensor) and not a.is_inference()]


_OF_A_BACKEND = ("mode", "options")  # arguments that mean something to the script's own backend only


def compile_with(backend: str, modules: Sequence[str], module_calls: bool) -> Callable[[], None]:
    """Have every torch.compile of this process use the backend; return a function that undoes this.

    `backend` is a registered name; or MODULE:NAME, for a backend that the module registers or holds. `modules` are
    imported first: from the script's folder, the current one, or wherever Python finds them. With `module_calls`, calls
    of modules from outside of modules are compiled too.
    """
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    of, _, name = backend.rpartition(":")
    imported = [importlib.import_module(module) for module in (*modules, *([of] if of else []))]
    chosen = getattr(imported[-1], name, name) if of else name
    original: Any = torch.compile

    @functools.wraps(original)
    def compile_(*args: Any, **keywords: Any) -> Any:
        rest = {key: value for key, value in keywords.items() if key not in _OF_A_BACKEND}
        return original(*args, **{**rest, "backend": chosen})

    torch.compile = compile_
    end_calls = compile_module_calls(compile_) if module_calls else lambda: None

    def end() -> None:
        end_calls()
        torch.compile = original

    return end
