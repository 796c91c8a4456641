"""Keep the state of the user's tensors, modules, optimizers and objects while a function runs for a look alone."""

from __future__ import annotations

import contextlib
import random
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.parameter import is_lazy

from minifier.compare.results import random_state_kept
from minifier.embed.reached_values import CONTAINERS, attributes_of, reached_values
from minifier.torch_private import storage_key, versions_kept


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
