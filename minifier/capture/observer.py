"""Stands around every backend call of the user's script: writes the graph ahead, notes how it went.

It changes nothing that the script can see: the backend gets the graph and inputs that Dynamo made, and
every exception goes on as it was. (Dynamo hands backends the real tensors of the call it is compiling
for, so a failing compile needs no stand-in to get at the inputs.)
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from minifier.baseline import Baseline
from minifier.capture.record import Record
from minifier.failure import Stage
from minifier.torch_private import is_failure, storage_key


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


class Observer:
    """The hook. `folder` gets one sub-folder for each backend call; events go to `events.jsonl` in it."""

    def __init__(
        self, folder: Path, script: str, ordinary_path: Sequence[str], baseline: Baseline, keep_inputs: bool
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
        record = Record(self, self.count, compiler_fn, gm, inputs)
        self.log.write("compiling", number=record.number, ops=record.ops, backend=record.backend.name)
        try:
            compiled = call()
        except BaseException as error:
            if is_failure(error):
                record.failed(Stage.COMPILE, error, inputs)
            else:
                self.log.write("declined", number=record.number, type=type(error).__name__)
            raise
        self.log.write("compiled", number=record.number)
        return self._observed(record, compiled)

    def _observed(self, record: Record, compiled: Callable[..., Any]) -> Callable[..., Any]:
        """The compiled function, with an eye on the exceptions it raises."""

        @functools.wraps(compiled, updated=())
        def run(*args: Any) -> Any:
            record.runs += 1
            kept = _copies(args) if self.keep_inputs else args
            before, inference = _versions(args), torch.is_inference_mode_enabled()
            try:
                return compiled(*args)
            except BaseException as error:
                if is_failure(error):
                    changed = not self.keep_inputs and _versions(args) != before
                    record.failed(Stage.RUN, error, kept, changed, inference)
                raise

        return run


def _versions(args: Sequence[Any]) -> list[int]:
    """How often each tensor was changed in place; inference tensors do not count it."""
    return [a._version for a in args if isinstance(a, torch.Tensor) and not a.is_inference()]


def _copies(args: Sequence[Any]) -> tuple[Any, ...]:
    """The arguments with fresh storage, so that a call which changes them cannot spoil the record."""
    storages: dict[object, torch.UntypedStorage] = {}

    def copy(value: Any) -> Any:
        if type(value) not in (torch.Tensor, torch.nn.Parameter) or value.layout != torch.strided:
            return value
        with torch.inference_mode(value.is_inference()), torch.no_grad():
            key = storage_key(value)
            if key not in storages:
                storages[key] = value.untyped_storage().clone()
            fresh = torch.empty(0, dtype=value.dtype, device=value.device)
            fresh.set_(storages[key], value.storage_offset(), value.shape, value.stride())
        fresh = torch.nn.Parameter(fresh, value.requires_grad) if isinstance(value, torch.nn.Parameter) else fresh
        return fresh.requires_grad_(value.requires_grad) if value.is_floating_point() or value.is_complex() else fresh

    return tuple(copy(value) for value in args)
