"""Stands around every backend call of the user's script: writes the graph ahead, notes how it went.

It changes nothing that the script can see: the backend gets the graph and inputs that Dynamo made, and
every exception goes on as it was. (Dynamo hands backends the real tensors of the call it is compiling
for, so a failing compile needs no stand-in to get at the inputs.)
"""

from __future__ import annotations

import functools
import os
import re
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from minifier.capturing.aot_calls import AotObserver
from minifier.capturing.backend_reference import reference
from minifier.capturing.baseline import Baseline
from minifier.capturing.events import EVENTS, EventLog
from minifier.capturing.graph_record import Record
from minifier.capturing.running_calls import RunningCalls, Token
from minifier.capturing.terms import Comparing, Terms
from minifier.capturing.training import Training
from minifier.case import BackendReference
from minifier.failure import Stage
from minifier.process.descriptors import Reserve
from minifier.process.logs import LogLine
from minifier.torch_private import backend_error, is_failure, transforms_ended

_MOST_SAID = 100  # different lines of logs that are written down


class _ThreadState(threading.local):
    call: BackendCall | None = None
    comparing = False
    told: BaseException | None = None


class Observer:
    """The hook. `folder` gets one sub-folder for each backend call; events go to `events.jsonl` in it. `on_failure` is
    called with what is raised, once it is written down."""

    def __init__(
        self,
        folder: Path,
        script: str,
        ordinary_path: Sequence[str],
        baseline: Baseline,
        terms: Terms = Terms(),  # noqa: B008 - it is frozen
        status: RunningCalls | None = None,
        on_failure: Callable[[Record, BaseException], None] = lambda record, error: None,
    ) -> None:
        self.on_failure = on_failure
        self.folder, self.script = folder, script
        self.ordinary_path, self.baseline = ordinary_path, baseline
        self.terms = terms
        self.keep, self.comparing = terms.keep, terms.comparing
        self.pattern = re.compile(terms.match_log) if terms.match_log is not None else None
        self.status = status or RunningCalls()
        self.log = EventLog(folder / EVENTS, forgiving=terms.in_place)
        self.reserve = Reserve()
        self.count = self.graphs = 0  # all that are numbered, and those of Dynamo's
        self.training = Training(lambda number: self.log.write("trained", number=number))
        self.mine = _ThreadState()
        self.open: list[BackendCall] = []
        self._aot: AotObserver | None = None
        self.closed = False  # whether it has seen enough
        self._trains = False
        self._said: set[tuple[int, str]] = set()

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
        given = list(inputs)  # a backend may put others into the list that it gets, or empty it
        record = self.record(gm, given, lambda: reference(compiler_fn, self.ordinary_path))
        return self.observed(record, self.around_compile(record, Stage.COMPILE, given, call))

    def record(
        self,
        gm: torch.fx.GraphModule,
        inputs: Sequence[Any],
        refer: Callable[[], BackendReference],
        definitions: str = "",
    ) -> Record:
        """The record of one more graph that goes to a backend; `definitions` is the source of one that is not the
        script's."""
        self.count += 1
        self.graphs += 1
        return Record(self, self.count, gm, inputs, refer, definitions=definitions, place=self.graphs)

    def close(self) -> None:
        """Observes no more; what stands around AOTAutograd goes, if nothing else has come to stand around it since."""
        self.closed = True
        if self._aot is not None:
            self._aot.end()
            self._aot = None

    @property
    def is_watching(self) -> bool:
        """Whether what happens now is the script's doing: not a forked process's, nor a comparison's."""
        return os.getpid() == self.log.pid and not (self.mine.comparing or self.closed)

    def around_compile(self, record: Record, stage: Stage, inputs: Sequence[Any], call: Callable[[], Any]) -> Any:
        """What compiling the record's graph gives, with an eye on how it goes."""
        forward = record.forward.number if record.forward is not None else None
        facts = {"ops": record.ops, "backend": record.backend.name, "forward": forward}
        self.log.write("compiling", number=record.number, **facts)
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
        self.log.write("compiled", number=record.number)
        if current.matched:
            record.fell_back(stage, current.matched, inputs)
        return compiled

    def _is_new(self, error: BaseException) -> bool:
        """Whether the failure is not on its way out of a call inside this one, which has noted it."""
        before, now = self.mine.told, backend_error(error)
        # Kept no longer than it is on its way through calls: its frames hold all that the script had in memory.
        self.mine.told = now if self.mine.call is not None else None
        return before is not now

    def observed(self, record: Record, compiled: Callable[..., Any], compares: bool = True) -> Callable[..., Any]:
        """The compiled function, with an eye on how its calls go. It may be called once more, to compare, if it
        `compares`."""

        @functools.wraps(compiled, updated=())
        def run(*args: Any) -> Any:
            if not self.is_watching:
                return compiled(*args)
            before = self.training.before(record.number, args)
            result = self.around_run(record, Stage.RUN, args, lambda: compiled(*args))
            self.training.after(record.number, args, result, before)
            if self.comparing is not None and record.runs == 1 and record.place not in self.comparing.left_out:
                if compares:
                    self._compare(record, compiled, self.comparing)
                else:
                    self.log.write("not compared", number=record.number, reason="it changes tensors that it holds")
            return result

        return run

    def _compare(self, record: Record, compiled: Callable[..., Any], comparing: Comparing) -> None:
        """The record's first call is done: the same once more, and eagerly. Noted in the status, as nothing that
        happens there is the script's doing."""
        self.mine.comparing = record.comparing = True
        token = self.status.enter(Stage.COMPARE, record.number, 0)
        try:
            record.compare(compiled, comparing)
        finally:
            self.status.leave(token, counts=False)
            self.mine.comparing = record.comparing = False

    def around_run(self, record: Record, stage: Stage, args: Sequence[Any], call: Callable[[], Any]) -> Any:
        """What a call of the compiled graph gives, with an eye on how it goes. `args` may be emptied by the call."""
        record.runs = number = record.runs + 1
        record.inference = torch.is_inference_mode_enabled()
        kept = self.terms.keep_all or (
            self.keep is not None and (record.number, number) == (self.keep.number, self.keep.call)
        )
        is_compared = self.comparing is not None and number == 1 and record.place not in self.comparing.left_out
        if kept or is_compared:
            record.keep(args, number)
        before = _versions(args)
        try:
            with BackendCall(self, record, stage, number) as current, transforms_ended():
                result = call()
        except BaseException as error:
            if is_failure(error) and self._is_new(error):
                with self.reserve:
                    record.failed(stage, error, args, number, _versions(args) != before)
                self.on_failure(record, error)
            raise
        if current.matched:
            record.fell_back(stage, current.matched, args, number, _versions(args) != before)
        return result

    def trains(self, roots: Sequence[Any]) -> None:
        """Notes that the script runs a backward pass."""
        if not self.is_watching:
            return
        if not self._trains:
            self._trains = True
            self.log.write("backward")
        self.training.passes(roots)

    def heard(self, said: LogLine) -> None:
        """Notes what was logged, if it was during a backend call."""
        if os.getpid() != self.log.pid:
            return
        current = self.mine.call
        if current is None and self.pattern is not None and len(self.open) == 1:
            current = self.open[0]  # a backend may have threads of its own
        if current is None:
            return
        number, line = current.record.number, said.line
        if (number, line) not in self._said and len(self._said) < _MOST_SAID:
            self._said.add((number, line))
            self.log.write("logged", number=number, logger=said.logger, level=said.level, message=said.message)
        if self.pattern is not None and not current.matched and self.pattern.search(line):
            current.matched = line


class BackendCall:
    """Around a call of a backend, or of what a backend gave: noted in the status, logs are listened to. `call` counts
    the calls of a compiled function from 1; it is 0 while compiling. `matched` is a line that --match-log looks for.
    """

    __slots__ = ("call", "matched", "observer", "outer", "record", "stage", "token")

    def __init__(self, observer: Observer, record: Record, stage: Stage, call: int = 0) -> None:
        self.observer, self.record, self.stage, self.call = observer, record, stage, call
        self.matched = ""
        self.outer: BackendCall | None = None
        self.token: Token | None = None

    def __enter__(self) -> BackendCall:
        observer = self.observer
        mine = observer.mine
        self.outer, mine.call = mine.call, self
        observer.open.append(self)
        self.token = observer.status.enter(self.stage, self.record.number, self.call)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        observer = self.observer
        observer.status.leave(self.token)
        observer.mine.call = self.outer
        if kind is None and self.outer is None:
            observer.mine.told = None
        observer.open.remove(self)


class ComparedCall:
    """Around what the backend made, called for a comparison's sake: it gets as long as a call of the script's. Can be
    entered again after it was left."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._token: Token | None = None

    def __enter__(self) -> None:
        self._token = self._record.observer.status.enter(Stage.COMPARE, self._record.number, 1)

    def __exit__(self, *_: object) -> None:
        self._record.observer.status.leave(self._token, counts=False)


def _versions(args: Sequence[Any]) -> list[int]:
    """How often each tensor was changed in place; inference tensors do not count it."""
    try:
        return [a._version for a in args]  # a tenth of the time, where all are tensors that count
    except (AttributeError, RuntimeError):
        pass
    return [a._version for a in args if isinstance(a, torch.Tensor) and not a.is_inference()]
