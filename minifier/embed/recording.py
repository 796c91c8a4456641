"""Record the graphs of a function as Cases, in the user's own process and without a call of the backend."""

from __future__ import annotations

import functools
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from minifier.capturing.backend_reference import reference
from minifier.capturing.baseline import Baseline, Fresh, baseline_here
from minifier.capturing.graph_record import Record
from minifier.capturing.observer import Observer
from minifier.capturing.terms import Terms
from minifier.case import Case, TensorMeta
from minifier.case.store import load, save
from minifier.case.variables import variables
from minifier.embed.source_here import source_here
from minifier.embed.state_kept import KeptState, state_kept
from minifier.errors import NoRepro
from minifier.report.privacy import note_private
from minifier.torch_private import (
    asked_backend,
    compiler_for,
    dynamo_caches_restored,
    isolated_compile,
    note_inference_mode,
)
from minifier.workflow.first_failure import ANY_FAILURE
from minifier.workflow.leftovers import keep_source


class _Recorder:
    """A backend that runs each graph in eager mode and saves it, with the inputs of its first call, as a Case.

    The Case names the backend under test, which is never called.
    """

    def __init__(self, observer: Observer, backend: Any, kept: KeptState) -> None:
        self.__name__ = getattr(backend, "__name__", type(backend).__name__)
        self.records: list[Record] = []
        self._observer, self._backend, self._kept = observer, backend, kept

    def __call__(self, gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        """Record the graph, and return its function."""
        compiler = compiler_for(self._backend, None, None, None)
        path = self._observer.baseline.path
        record = self._observer.record(gm, list(inputs), lambda: reference(compiler, path))
        self.records.append(record)

        def run(*args: Any) -> Any:
            self._kept.note(*args)
            if not record.runs:
                record.runs = 1
                record.keep(args, 1)
            return gm.forward(*args)

        return run


def record_graphs(function: Callable[..., Any], inputs: Sequence[Any], backend: Any, folder: Path) -> int:
    """Call the function once, compiled by a backend that only records; return the number of graphs.

    The graphs that were called are Cases in sub-folders of `folder`, by number, in the order of their compilation.
    The state that `state_kept` restores and Dynamo's caches are afterwards as before. Raises whatever the function
    itself raises, and NoRepro if a graph cannot be saved.
    """
    compiler_for(backend, None, None, None)  # raises torch's own error for an unknown name
    name = getattr(function, "__name__", type(function).__name__)
    observer = Observer(folder, name, _fresh_baseline(), Terms(in_place=True))
    end_noting = note_inference_mode()
    try:
        with state_kept(function, inputs) as kept:
            recorder = _Recorder(observer, backend, kept)
            with dynamo_caches_restored(lambda compiler: asked_backend(compiler).function is recorder):
                isolated_compile(function, recorder)(*inputs)
    finally:
        observer.close()
        end_noting()
    _finish(recorder.records, folder)
    return len(recorder.records)


def _finish(records: Sequence[Record], folder: Path) -> None:
    """Complete the Cases of called graphs: the script's source and private texts, and whether a backward follows."""
    source, is_file = source_here()
    keep_source(folder, source)
    note_private(folder)
    for record in records:
        if record.unsaved:
            raise NoRepro(f"graph {record.number} cannot be saved, so no other process can run it: {record.unsaved}")
        if not record.runs:
            shutil.rmtree(record.folder)
            continue
        case = load(record.folder)
        if not is_file:  # its line counts from its cell, the source has all cells
            case = replace(case, script=replace(case.script, line=0))
        save(replace(case, failure=ANY_FAILURE, backward=_trains(case)), record.folder)


def _trains(case: Case) -> bool:
    """Whether a backward pass through the graph is possible."""
    values = [case.graph.node(name).value for name in case.graph.output.refs()]
    has_gradient = any(isinstance(value, TensorMeta) and value.requires_grad for value in values)
    return has_gradient and case.state.grad and not case.state.inference


def _fresh_baseline() -> Baseline:
    return replace(_baseline(tuple(variables(os.environ))), environment=dict(os.environ))


@functools.lru_cache(maxsize=1)
def _baseline(_variables: tuple[tuple[str, str], ...]) -> Baseline:
    """Return torch's defaults, which a fresh interpreter tells; once for all calls with these variables."""
    return Fresh(baseline_here()).baseline
