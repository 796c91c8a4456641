"""Record the graphs of a function as Cases, without a call of its backend, on copies of its inputs."""

from __future__ import annotations

import contextlib
import copy
import os
import random
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch.nn.parameter import is_lazy

from minifier.capturing.backend_reference import reference
from minifier.capturing.graph_record import Record
from minifier.capturing.observer import Observer
from minifier.capturing.process_state import reported_baseline
from minifier.capturing.script_limits import Terms
from minifier.data.case import Case, TensorMeta
from minifier.data.case.store import load, save
from minifier.data.case.switches import variables
from minifier.errors import NoRepro
from minifier.flow.embed.session import name_of, source_here
from minifier.flow.first_failure import ANY_FAILURE
from minifier.flow.folders import keep_source
from minifier.repro.report.privacy import note_private
from minifier.torch_side.compare.results import random_state_kept
from minifier.torch_side.torch_private import dynamo, modes


class _Recorder:
    """A backend that runs each graph in eager mode and saves it, with the inputs of its first call, as a Case.

    The Case names the backend under test, which is never called.
    """

    def __init__(self, observer: Observer, backend: Any) -> None:
        self.__name__ = name_of(backend)
        self.records: list[Record] = []
        self._observer, self._backend = observer, backend

    def __call__(self, gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        """Record the graph, and return its function."""
        compiler = dynamo.compiler_for(self._backend, None, None, None)
        path = self._observer.baseline.path
        record = self._observer.record(gm, list(inputs), lambda: (reference(compiler, path), ""))
        self.records.append(record)

        def run(*args: Any) -> Any:
            if not record.runs:
                record.runs = 1
                record.keep(args, 1)
            return gm.forward(*args)

        return run


def record_graphs(function: Callable[..., Any], inputs: Sequence[Any], backend: Any, folder: Path) -> int:
    """Call the function once on copies of its inputs, compiled by a backend that only records.

    Returns the number of graphs. The called graphs are Cases in sub-folders of `folder`, by number, in the order of
    their compilation. The state that `state_kept` restores and Dynamo's caches are afterwards as before. Raises
    whatever the function itself raises, and NoRepro if a graph cannot be saved.
    """
    dynamo.compiler_for(backend, None, None, None)  # raises torch's own error for an unknown name
    baseline = replace(reported_baseline(tuple(variables(os.environ))), environment=dict(os.environ))
    observer = Observer(folder, name_of(function), baseline, Terms(in_place=True))
    end_noting = modes.note_inference_mode()
    try:
        recorder = _Recorder(observer, backend)
        with (
            state_kept(function),
            dynamo.dynamo_caches_restored(lambda compiler: dynamo.asked_backend(compiler).function is recorder),
        ):
            dynamo.isolated_compile(function, recorder)(*copied(list(inputs), {}))
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


@contextlib.contextmanager
def state_kept(function: Callable[..., Any]) -> Iterator[None]:
    """Restore afterwards the random generators, and a module's parameters, buffers and gradients.

    The module is the function itself, or the one whose method it is.
    """
    numpy = sys.modules.get("numpy")
    of_python, of_numpy = random.getstate(), numpy.random.get_state() if numpy is not None else None
    owner = getattr(function, "__self__", function)
    modules = list(owner.modules()) if isinstance(owner, torch.nn.Module) else []
    held: list[tuple[dict[str, Any], dict[str, Any]]] = [
        (names, dict(names)) for module in modules for names in (module._parameters, module._buffers)
    ]
    tensors = [
        (tensor, tensor.detach().clone(), tensor.grad, None if tensor.grad is None else tensor.grad.clone())
        for _, before in held
        for tensor in before.values()
        if tensor is not None and not is_lazy(tensor)
    ]
    try:
        with random_state_kept():
            yield
    finally:
        random.setstate(of_python)
        if numpy is not None:
            numpy.random.set_state(of_numpy)
        for names, before in held:
            names.clear()
            names.update(before)
        with torch.no_grad():
            for tensor, value, grad, content in tensors:
                _restore(tensor, value)
                tensor.grad = grad
                if grad is not None and content is not None:
                    _restore(grad, content)


def _restore(tensor: torch.Tensor, value: torch.Tensor) -> None:
    if not torch.equal(tensor, value):  # a write would raise the version, for which a graph of the user's may look
        tensor.copy_(value)


def copied(value: Any, memo: dict[int, Any]) -> Any:
    """Return a deep copy of an argument; the argument itself if it cannot be copied.

    With one `memo` for all arguments, tensors of one memory have one memory again. A result of autograd becomes a leaf.
    """
    if isinstance(value, torch.Tensor) and not value.is_leaf:
        return value.detach().clone().requires_grad_()
    if type(value) in (list, tuple):
        return type(value)(copied(each, memo) for each in value)
    if type(value) is dict:
        return {key: copied(each, memo) for key, each in value.items()}
    try:
        return copy.deepcopy(value, memo)
    except (TypeError, RuntimeError, NotImplementedError):
        return value
