"""The registry of backends, and the code that registered each of them."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from types import FrameType
from typing import Any

import torch
from torch._dynamo.backends import registry

Stack = tuple[tuple[str, str], ...]  # (module, function) of each frame, innermost first


def _stack() -> Stack:
    frames = []
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        frames.append((frame.f_globals.get("__name__") or "", frame.f_code.co_name))
        frame = frame.f_back
    return tuple(frames)


class _Registrations(dict[str, Any]):
    """The registry's table, with the stack at the registration of each backend."""

    def __init__(self, table: dict[str, Any]) -> None:
        super().__init__(table)
        self.stacks: dict[str, Stack] = {}

    def __setitem__(self, name: str, function: Any) -> None:
        self.stacks[name] = _stack()
        super().__setitem__(name, function)


def note_registrations() -> None:
    """Record which code registers each backend and each library of operators, from now on."""
    if isinstance(registry._COMPILER_FNS, _Registrations):
        return
    registry._COMPILER_FNS = _Registrations(registry._COMPILER_FNS)
    original_init: Callable[..., None] = torch.library.Library.__init__

    def __init__(self: Any, ns: str, *args: Any, **kwargs: Any) -> None:
        _libraries.setdefault(ns, _stack())
        original_init(self, ns, *args, **kwargs)

    torch.library.Library.__init__ = __init__  # type: ignore[method-assign]


_libraries: dict[str, Stack] = {}


def library_stack(namespace: str) -> Stack:
    """Return the stack of the first library with this namespace (`torch.ops.<namespace>`); empty if unknown."""
    return _libraries.get(namespace, ())


def registration_stack(name: str) -> Stack:
    """Return the stack that registered the backend; empty if unknown."""
    table = registry._COMPILER_FNS
    return table.stacks.get(name, ()) if isinstance(table, _Registrations) else ()


def registered_names(function: Any) -> list[str]:
    """Return all names under which this callable is registered."""
    return [name for name, known in registry._COMPILER_FNS.items() if known is function]


@functools.cache
def entry_point_of(name: str) -> EntryPoint | None:
    """Return the backend's entry point or None. Torch forgets loaded entry points, hence the cache."""
    points = entry_points(group="torch_dynamo_backends", name=name)
    return registry._BACKENDS.get(name) or next(iter(points), None)


def backend_table() -> list[tuple[str, Any, EntryPoint | None]]:
    """Return (name, callable or None if not loaded, entry point or None) of every backend that torch finds."""
    registry.list_backends(exclude_tags=())
    return [(n, registry._COMPILER_FNS.get(n), entry_point_of(n)) for n in sorted(registry._BACKENDS)]
