"""Stands around every backend call of the user's script: writes the graph ahead, notes how it went.

It changes nothing that the script can see: the backend gets the graph and inputs that Dynamo made, and
every exception goes on as it was. (Dynamo hands backends the real tensors of the call it is compiling
for, so a failing compile needs no stand-in to get at the inputs.)
"""

from __future__ import annotations

import functools
import json
import os
import re
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from minifier.capture.logs import Said
from minifier.capture.record import Record
from minifier.capture.state import Config
from minifier.capture.status import Status, Token
from minifier.capture.terms import Terms
from minifier.failure import Stage
from minifier.torch_private import is_failure

_MOST_SAID = 100  # different lines of logs that are written down


class EventLog:
    """One JSON object a line, on disk before the next thing happens."""

    def __init__(self, path: Path) -> None:
        self._path = path.absolute()
        self.pid = os.getpid()

    def write(self, event: str, **facts: Any) -> None:
        """Appends the event; a process that the script forked writes nothing."""
        if os.getpid() == self.pid:
            # Opened for each line: a script may close every file it finds open.
            with self._path.open("ab") as file:
                file.write((json.dumps({"event": event, **facts}) + "\n").encode())


class _Mine(threading.local):
    call: BackendCall | None = None


class Observer:
    """The hook. `folder` gets one sub-folder for each backend call; events go to `events.jsonl` in it."""

    def __init__(
        self,
        folder: Path,
        script: str,
        ordinary_path: Sequence[str],
        baseline: Config,
        terms: Terms = Terms(),  # noqa: B008 - it is frozen
        status: Status | None = None,
    ) -> None:
        self.folder, self.script = folder, script
        self.ordinary_path, self.baseline = ordinary_path, baseline
        self.keep = terms.keep
        self.pattern = re.compile(terms.match_log) if terms.match_log is not None else None
        self.status = status or Status()
        self.log = EventLog(folder / "events.jsonl")
        self.count = 0
        self.mine = _Mine()
        self.open: list[BackendCall] = []
        self._said: set[tuple[int, str]] = set()

    def __call__(
        self,
        compiler_fn: Any,
        gm: torch.fx.GraphModule,
        inputs: Sequence[Any],
        call: Callable[[], Callable[..., Any]],
    ) -> Callable[..., Any]:
        if os.getpid() != self.log.pid:
            return call()
        self.count += 1
        record = Record(self, self.count, compiler_fn, gm)
        self.log.write("compiling", number=record.number, ops=record.ops, backend=record.backend.name)
        try:
            with BackendCall(self, record, Stage.COMPILE) as current:
                compiled = call()
        except BaseException as error:
            if is_failure(error):
                record.failed(Stage.COMPILE, error, inputs)
            else:
                self.log.write("declined", number=record.number, type=type(error).__name__)
            raise
        self.log.write("compiled", number=record.number)
        if current.matched:
            record.fell_back(Stage.COMPILE, current.matched, inputs)
        return self._observed(record, compiled)

    def _observed(self, record: Record, compiled: Callable[..., Any]) -> Callable[..., Any]:
        """The compiled function, with an eye on how its calls go."""
        pid, keep = self.log.pid, self.keep
        kept_call = keep.call if keep is not None and keep.number == record.number else 0

        @functools.wraps(compiled, updated=())
        def run(*args: Any) -> Any:
            if os.getpid() != pid:
                return compiled(*args)
            record.runs = call = record.runs + 1
            if call == kept_call:
                record.keep(args, call)
            before = _versions(args)
            try:
                with BackendCall(self, record, Stage.RUN, call) as current:
                    result = compiled(*args)
            except BaseException as error:
                if is_failure(error):
                    record.failed(Stage.RUN, error, args, call, _versions(args) != before)
                raise
            if current.matched:
                record.fell_back(Stage.RUN, current.matched, args, call, _versions(args) != before)
            return result

        return run

    def heard(self, said: Said) -> None:
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

    def __exit__(self, *_: object) -> None:
        observer = self.observer
        observer.status.leave(self.token)
        observer.mine.call = self.outer
        observer.open.remove(self)


def _versions(args: Sequence[Any]) -> list[int]:
    """How often each tensor was changed in place; inference tensors do not count it."""
    try:
        return [a._version for a in args]  # a tenth of the time, where all are tensors that count
    except (AttributeError, RuntimeError):
        pass
    return [a._version for a in args if isinstance(a, torch.Tensor) and not a.is_inference()]
