"""Stands around every backend call of the user's script: writes the graph ahead, notes how it went.

It changes nothing that the script can see: the backend gets the graph and inputs that Dynamo made, and
every exception goes on as it was. (Dynamo hands backends the real tensors of the call it is compiling
for, so a failing compile needs no stand-in to get at the inputs.)
"""

from __future__ import annotations

import functools
import json
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from minifier.capture.hints import hints
from minifier.capture.reference import reference
from minifier.capture.state import Config, current_state
from minifier.case import Case, Drawn, Graph, Input, Scalar, ScalarInput, Script, TensorInput, TensorMeta
from minifier.case.store import TENSORS, save
from minifier.errors import CannotSave
from minifier.failure import Failure, Fingerprint, Kind, Stage
from minifier.failure.fingerprint import failure_of
from minifier.failure.observed import describe, text
from minifier.fx.arguments import tensor_meta
from minifier.fx.read import read_graph
from minifier.fx.tensors import TensorFile
from minifier.torch_private import as_hint, backend_error, is_failure

_PENDING = Failure(Fingerprint(Stage.COMPILE, Kind.SIGNAL), "", "")


class EventLog:
    """One JSON object a line, on disk before the next thing happens."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self.pid = os.getpid()

    def write(self, event: str, **facts: Any) -> None:
        """Appends the event; a process that the script forked writes nothing."""
        if os.getpid() == self.pid:
            os.write(self._file, (json.dumps({"event": event, **facts}) + "\n").encode())


class _Call:
    """One graph that went to the backend: what is known of it, and the inputs of a failing call."""

    def __init__(self, observer: Observer, number: int, compiler_fn: Any, gm: torch.fx.GraphModule) -> None:
        self.observer, self.number = observer, number
        self.folder = observer.folder / str(number)
        self.tensors = TensorFile()
        self.runs = 0
        self.graph: Graph | None = None
        self.unsaved = ""
        self.backend = reference(compiler_fn, observer.ordinary_path)
        self.state = current_state(observer.baseline)
        try:
            self.graph = read_graph(gm, self.tensors)
        except CannotSave as error:
            self.unsaved = str(error)

    def write_ahead(self) -> None:
        """The graph on disk, with inputs by their shape alone, before the backend can die on it."""
        if self.graph is not None:
            inputs = tuple(_by_shape(n.name, n.value) for n in self.graph.placeholders)
            self.save(inputs, _PENDING, tensors=None)

    def save(self, inputs: tuple[Input, ...], failure: Failure, tensors: Path | None) -> None:
        assert self.graph is not None
        script = Script(self.observer.script, graph_number=self.number)
        save(Case(self.graph, inputs, self.backend, failure, self.state, script, tensors), self.folder)

    def failed(self, stage: Stage, error: BaseException, values: Sequence[Any], changed: Sequence[str] = ()) -> None:
        """Writes the Case with the real inputs; what cannot be written is said by name in the event."""
        inner = backend_error(error)
        names = self.graph.free_names if self.graph else ()
        links = describe(inner)
        found = hints(inner, self.graph) if self.graph else ()
        failure = failure_of(stage, links, text(inner), names, found)
        if self.graph is not None and not self.unsaved:
            try:
                inputs = self._real_inputs(values)
                self.folder.mkdir(parents=True, exist_ok=True)
                self.save(inputs, failure, self.tensors.write(self.folder / TENSORS))
            except CannotSave as problem:
                self.unsaved = str(problem)
        self.observer.log.write(
            "failed",
            number=self.number,
            stage=stage.value,
            sentence=failure.fingerprint.sentence(),
            type=failure.type,
            message=failure.message,
            traceback=failure.traceback,
            unsaved=self.unsaved,
            unreachable=self.backend.reason,
            backend=self.backend.name,
            call=self.runs,
            changed=list(changed),
            ops=len(self.graph.ops) if self.graph else None,
        )

    def _real_inputs(self, values: Sequence[Any]) -> tuple[Input, ...]:
        assert self.graph is not None
        placeholders = self.graph.placeholders
        if len(placeholders) != len(values):
            raise CannotSave(f"the graph has {len(placeholders)} inputs, but was called with {len(values)}")
        pairs = [(node, value) for node, value in zip(placeholders, values, strict=True)]
        stored = self.tensors.add_inputs({n.name: v for n, v in pairs if isinstance(v, torch.Tensor)})
        storages: dict[object, int] = {}
        inputs: list[Input] = []
        for node, value in pairs:
            if isinstance(value, torch.Tensor):
                meta = tensor_meta(value, storages)
                parameter = isinstance(value, torch.nn.Parameter)
                inputs.append(TensorInput(node.name, meta, stored[node.name], value.is_leaf, parameter))
            elif value is None or isinstance(value, (bool, int, float, str)):
                inputs.append(ScalarInput(node.name, value))
            elif isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
                inputs.append(ScalarInput(node.name, as_hint(value), str(value)))
            else:
                kind = type(value)
                raise CannotSave(f"the input {node.name}, a {kind.__module__}.{kind.__qualname__}")
        return tuple(inputs)


def _by_shape(name: str, value: Any) -> Input:
    if isinstance(value, TensorMeta):
        return TensorInput(name, value, Drawn("zeros"))
    return ScalarInput(name, value.value, value.symbol) if isinstance(value, Scalar) else ScalarInput(name, None)


class Observer:
    """The hook. `folder` gets one sub-folder for each backend call; events go to `events.jsonl` in it."""

    def __init__(
        self, folder: Path, script: str, ordinary_path: Sequence[str], baseline: Config, keep_inputs: bool
    ) -> None:
        self.folder, self.script = folder, script
        self.ordinary_path, self.baseline, self.keep_inputs = ordinary_path, baseline, keep_inputs
        self.log = EventLog(folder / "events.jsonl")
        self.count = 0

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
        record = _Call(self, self.count, compiler_fn, gm)
        record.write_ahead()
        ops = len(record.graph.ops) if record.graph else None
        self.log.write("compiling", number=self.count, ops=ops, backend=record.backend.name, time=time.time())
        try:
            compiled = call()
        except BaseException as error:
            if is_failure(error):
                record.failed(Stage.COMPILE, error, inputs)
            else:
                self.log.write("declined", number=record.number, type=type(error).__name__)
            raise
        self.log.write("compiled", number=record.number, time=time.time())
        return self._observed(record, compiled)

    def _observed(self, record: _Call, compiled: Callable[..., Any]) -> Callable[..., Any]:
        """The compiled function, with an eye on the exceptions it raises."""

        @functools.wraps(compiled, updated=())
        def run(*args: Any) -> Any:
            record.runs += 1
            kept = _copies(args) if self.keep_inputs else args
            before = [(a, a._version) for a in args if isinstance(a, torch.Tensor) and not a.is_inference()]
            try:
                return compiled(*args)
            except BaseException as error:
                if is_failure(error):
                    changed = ["input"] if any(a._version != v for a, v in before) and not self.keep_inputs else []
                    record.failed(Stage.RUN, error, kept, changed)
                raise

        return run


def _copies(args: Sequence[Any]) -> tuple[Any, ...]:
    """The arguments with fresh storage, so that a call which changes them cannot spoil the record."""
    storages: dict[int, torch.UntypedStorage] = {}

    def copy(value: Any) -> Any:
        if type(value) not in (torch.Tensor, torch.nn.Parameter) or value.layout != torch.strided:
            return value
        with torch.no_grad():
            key = value.untyped_storage()._cdata
            if key not in storages:
                storages[key] = value.untyped_storage().clone()
            fresh = torch.empty(0, dtype=value.dtype, device=value.device)
            fresh.set_(storages[key], value.storage_offset(), value.shape, value.stride())
        fresh = torch.nn.Parameter(fresh, value.requires_grad) if isinstance(value, torch.nn.Parameter) else fresh
        return fresh.requires_grad_(value.requires_grad) if value.is_floating_point() or value.is_complex() else fresh

    return tuple(copy(value) for value in args)
