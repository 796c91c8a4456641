"""Record the graphs of a function as Cases, without a call of its backend, and restore the state that it changed."""

from __future__ import annotations

import contextlib
import functools
import os
import random
import shutil
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import FunctionType, MethodType, ModuleType
from typing import Any

import torch
from torch.nn.parameter import is_lazy

from minifier.capturing.backend_reference import reference
from minifier.capturing.graph_record import Record
from minifier.capturing.observer import Observer
from minifier.capturing.process_state import Baseline, reported_baseline
from minifier.capturing.script_limits import Terms
from minifier.data.case import Case, TensorMeta
from minifier.data.case.store import load, save
from minifier.data.case.switches import variables
from minifier.data.failure.frames import installed_path
from minifier.errors import NoRepro
from minifier.flow.embed.session import source_here
from minifier.flow.first_failure import ANY_FAILURE
from minifier.flow.folders import keep_source
from minifier.repro.report.privacy import note_private
from minifier.repro.source.own_code import closure, nested_codes
from minifier.torch_side.compare.results import random_state_kept
from minifier.torch_side.torch_private import (
    asked_backend,
    compiler_for,
    dynamo_caches_restored,
    isolated_compile,
    note_inference_mode,
    storage_key,
    versions_kept,
)


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
    return replace(reported_baseline(tuple(variables(os.environ))), environment=dict(os.environ))


@dataclass(frozen=True, slots=True)
class _Tensor:
    """A tensor's state, without the content of its memory. `data` is an alias of the tensor, with its layout.

    The class of a lazy parameter changes with its first use.
    """

    tensor: torch.Tensor
    cls: type
    data: torch.Tensor
    requires_grad: bool
    is_leaf: bool
    grad: torch.Tensor | None

    def restore(self) -> None:
        tensor = self.tensor
        if self.is_leaf and not tensor.is_leaf and not tensor._is_view():
            tensor.detach_()
        if self.is_leaf and tensor.is_leaf:
            if tensor.requires_grad is not self.requires_grad:
                tensor.requires_grad_(self.requires_grad)
            if tensor.grad is not self.grad:
                tensor.grad = None
        if _place_of(_data_of(tensor)) != _place_of(self.data):
            tensor.data = self.data
        if self.is_leaf and tensor.is_leaf and tensor.grad is not self.grad:
            tensor.grad = self.grad
        if type(tensor) is not self.cls:
            tensor.__class__ = self.cls


@dataclass(frozen=True, slots=True)
class _Object:
    """The class and the attributes of an object."""

    value: Any
    cls: type
    attributes: dict[str, Any]

    def restore(self) -> None:
        if type(self.value) is not self.cls:
            object.__setattr__(self.value, "__class__", self.cls)
        now = vars(self.value)
        for name in now.keys() - self.attributes.keys():
            del now[name]
        for name, value in self.attributes.items():
            if name not in now or now[name] is not value:
                now[name] = value


class KeptState:
    """The state of all values that the noted ones reach; each is noted once, ahead of its first change.

    A tensor's memory is copied, and written back only if it differs: another thread may read it meanwhile. Tensors
    without memory of their own are left out: sparse, meta and fake tensors, and subclasses that wrap other tensors.
    """

    def __init__(self) -> None:
        self._seen: dict[int, Any] = {}
        self._tensors: list[_Tensor] = []
        self._memory: dict[object, tuple[torch.UntypedStorage, torch.UntypedStorage]] = {}
        self._objects: list[_Object] = []
        self._containers: list[tuple[Any, Any]] = []
        self._versions = contextlib.ExitStack()

    def note(self, *values: Any) -> None:
        """Note tensors, containers, modules, optimizers and the user's objects, and all of these that they reach."""
        for value in reached_values(values, self._seen):
            if isinstance(value, torch.Tensor):
                self._note_tensor(value)
            elif isinstance(value, CONTAINERS):
                self._containers.append((value, dict(value) if isinstance(value, dict) else list(value)))
            if (attributes := attributes_of(value)) is not None:
                self._objects.append(_Object(value, type(value), dict(attributes)))

    def _note_tensor(self, tensor: torch.Tensor) -> None:
        data, grad = _data_of(tensor), tensor.grad if tensor.is_leaf else None
        if data is None:
            return
        self._tensors.append(_Tensor(tensor, type(tensor), data, tensor.requires_grad, tensor.is_leaf, grad))
        if not is_lazy(tensor):
            self._versions.enter_context(versions_kept([tensor]))
        storage = data.untyped_storage()
        self._memory.setdefault(storage_key(data), (storage, _copy(storage)))
        if grad is not None:
            self.note(grad)

    def restore(self) -> None:
        """Restore everything that was noted, and the tensors' version counters."""
        for kept in self._objects:
            kept.restore()
        for container, content in self._containers:
            _restore_content(container, content)
        with torch.no_grad():
            for storage, before in self._memory.values():
                if not _same_bytes(storage, before):
                    storage.resize_(before.nbytes())
                    storage.copy_(before)
            for noted in self._tensors:
                noted.restore()
        self._versions.close()


def _place_of(data: torch.Tensor | None) -> tuple[object, ...] | None:
    """Return the identity of the tensor's storage, and the tensor's place and layout there."""
    return data if data is None else (storage_key(data), data.storage_offset(), tuple(data.shape), data.stride())


def _data_of(tensor: torch.Tensor) -> torch.Tensor | None:
    """Return an alias of the tensor outside autograd; None for a tensor without memory of its own."""
    if tensor.layout is not torch.strided or tensor.device.type == "meta":
        return None
    try:
        data = tensor.data
        if is_lazy(tensor):
            data.__class__ = torch.Tensor  # a lazy tensor refuses to show its memory
        storage = data.untyped_storage()
        if storage.device.type != data.device.type:  # of a fake tensor
            return None
        storage.data_ptr()  # fails for a tensor that wraps others
    except (NotImplementedError, RuntimeError):
        return None
    return data


def _copy(storage: torch.UntypedStorage) -> torch.UntypedStorage:
    copy: torch.UntypedStorage = storage.clone()  # type: ignore[no-untyped-call]
    return copy


def _same_bytes(first: torch.UntypedStorage, second: torch.UntypedStorage) -> bool:
    if first.nbytes() != second.nbytes():
        return False
    return torch.equal(*(torch.empty(0, dtype=torch.uint8, device=each.device).set_(each) for each in (first, second)))


def _restore_content(value: Any, content: Any) -> None:
    """Give a container its former content, if that has changed."""
    if _identities(value) != _identities(content):
        value.clear()
        value.extend(content) if isinstance(value, (list, deque)) else value.update(content)


def _identities(content: Any) -> Any:
    if isinstance(content, dict):
        return [(id(key), id(value)) for key, value in content.items()]
    return list(map(id, content))


@contextlib.contextmanager
def state_kept(function: Callable[..., Any], inputs: Iterable[Any]) -> Iterator[KeptState]:
    """Restore afterwards the global random generators, and the state that the function and the inputs reach.

    Further values that a block may change are noted in the yielded state ahead of the change.
    """
    kept = KeptState()
    numpy = sys.modules.get("numpy")
    of_python, of_numpy = random.getstate(), numpy.random.get_state() if numpy is not None else None
    try:
        kept.note(function, *inputs)
        with random_state_kept():
            yield kept
    finally:
        random.setstate(of_python)
        if numpy is not None:
            numpy.random.set_state(of_numpy)
        kept.restore()


CONTAINERS = (dict, list, set, deque)
_FIXED_CONTAINERS = (tuple, frozenset)
_OF_TRAINING = (
    torch.nn.Module,
    torch.optim.Optimizer,
    torch.optim.lr_scheduler.LRScheduler,
    torch.amp.GradScaler,
)
_NOT_USERS = (os.path.join(os.path.dirname(torch.__file__), ""), os.path.join(str(Path(__file__).parents[2]), ""))


def reached_values(roots: Iterable[Any], seen: dict[int, Any]) -> Iterator[Any]:
    """Yield the roots and all values that they reach, each once. Values in `seen` are left out, others are added."""
    pending = deque(roots)
    while pending:
        value = pending.popleft()
        if id(value) not in seen:
            seen[id(value)] = value  # kept alive: another object would get its id
            yield value
            pending.extend(_held_by(value))


def attributes_of(value: Any) -> dict[str, Any] | None:
    """Return the attributes of a module, an optimizer or an object of the user's own class; None for other values."""
    if not type(value).__dictoffset__ or isinstance(value, (torch.Tensor, type)):
        return None
    return vars(value) if isinstance(value, _OF_TRAINING) or _is_users_class(type(value)) else None


def _held_by(value: Any) -> Iterator[Any]:
    """Yield the values that a value holds itself.

    A function holds its closure and defaults, and the globals that it names if it is the user's. A class of the user's
    holds its methods.
    """
    if isinstance(value, dict):
        yield from (*value.keys(), *value.values())
    elif isinstance(value, (*CONTAINERS, *_FIXED_CONTAINERS)):
        yield from tuple(value)
    elif isinstance(value, torch.Tensor):
        yield value._base
    elif isinstance(value, functools.partial):
        yield from (value.func, *value.args, *value.keywords.values())
    elif isinstance(value, MethodType):
        yield from (value.__self__, value.__func__)
    elif isinstance(value, (staticmethod, classmethod)):
        yield value.__func__
    elif isinstance(value, property):
        yield from (value.fget, value.fset)
    elif isinstance(value, FunctionType):
        yield from closure(value).values()
        yield from (*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values())
        if _is_users_file(value.__code__.co_filename):
            names = frozenset(name for code in nested_codes(value.__code__) for name in code.co_names)
            yield from _named(names, value.__globals__, set())
    elif isinstance(value, type) and _is_users_class(value):
        yield from (*value.__bases__, *vars(value).values())
    if (attributes := attributes_of(value)) is not None:
        yield from (type(value), *attributes.values())


def _named(names: frozenset[str], namespace: Mapping[str, Any], seen: set[int]) -> Iterator[Any]:
    """Yield the values of these names in a namespace, and in the user's modules among them."""
    seen.add(id(namespace))
    for name in names & namespace.keys():
        value = namespace[name]
        if not isinstance(value, ModuleType):
            yield value
        elif id(vars(value)) not in seen and _is_users_module(value):
            yield from _named(names, vars(value), seen)


def _is_users_class(cls: type) -> bool:
    module = sys.modules.get(cls.__module__)
    return module is not None and _is_users_module(module)


def _is_users_module(module: ModuleType) -> bool:
    """Whether a module is the running script, a session, or has a file of the user's."""
    return module.__name__ == "__main__" or _is_users_file(getattr(module, "__file__", None) or "<frozen>")


@functools.cache
def _is_users_file(file: str) -> bool:
    """Whether a file is neither a package's nor Python's; a session's cell is the user's."""
    return not (file.startswith(("<frozen", *_NOT_USERS)) or installed_path(file))
