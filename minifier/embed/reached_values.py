"""Find the values that a call may change: those that a function and its inputs reach."""

from __future__ import annotations

import functools
import os
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import torch

from minifier.failure.frames import installed_path

CONTAINERS = (dict, list, set, deque)
_FIXED_CONTAINERS = (tuple, frozenset)
_OF_TRAINING = (
    torch.nn.Module,
    torch.optim.Optimizer,
    torch.optim.lr_scheduler.LRScheduler,
    torch.amp.GradScaler,
)
_NOT_USERS = tuple(os.path.join(os.path.dirname(file), "") for file in (torch.__file__, os.path.dirname(__file__)))


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
        yield from (cell.cell_contents for cell in value.__closure__ or () if _is_filled(cell))
        yield from (*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values())
        if _is_users_file(value.__code__.co_filename):
            yield from _named(frozenset(_names(value.__code__)), value.__globals__, set())
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


def _names(code: CodeType) -> Iterator[str]:
    """Yield the names of globals and attributes in the code, and in the functions that it defines."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


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


def _is_filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018 - an empty cell raises
    except ValueError:
        return False
    return True
