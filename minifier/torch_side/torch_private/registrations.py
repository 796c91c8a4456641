"""The registries of backends and operators: what is registered, by which code, and decompositions."""

from __future__ import annotations

import functools
import re
import sys
import traceback
from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import torch
from torch._C import _autograd, _functorch
from torch._ops import HigherOrderOperator, OpOverload, OpOverloadPacket

from minifier.data.torch_names import ENTRY_POINTS, HIGHER_ORDER
from minifier.torch_side.torch_private import declared

Stack = tuple[tuple[str, str], ...]  # (module, function) of each frame, innermost first


def arguments_of(function: Any) -> list[tuple[str, bool]]:
    """Return the arguments of an operator, each with whether the operator writes to it; [] for other functions."""
    if isinstance(function, OpOverloadPacket):
        function = getattr(function, function.overloads()[0])  # type: ignore[no-untyped-call]
    arguments = function._schema.arguments if isinstance(function, OpOverload) else ()
    return [(each.name, each.alias_info is not None and each.alias_info.is_write) for each in arguments]


def _stack() -> Stack:
    frames = [frame for frame, _ in traceback.walk_stack(sys._getframe(1))]
    calls = ((frame.f_globals.get("__name__") or "", frame.f_code.co_name) for frame in frames)
    return tuple((module, function) for module, function in calls if not module.startswith("minifier."))


class _Registrations(dict[str, Any]):
    """The registry's table, with the stack at the registration of each backend."""

    def __init__(self, table: dict[str, Any]) -> None:
        super().__init__(table)
        self.stacks: dict[str, Stack] = {}

    def __setitem__(self, name: str, function: Any) -> None:
        self.stacks[name] = _stack()
        super().__setitem__(name, function)


def note_registrations() -> None:
    """Record which code registers each backend and defines each operator, from now on."""
    table = declared.BACKENDS.find()
    if isinstance(table, _Registrations):  # since an earlier run, which was told of what is missing
        declared.DEFINE.find()
        return
    if type(table) is dict:
        declared.BACKENDS.assign(_Registrations(table))
    elif table is not None:
        declared.BACKENDS.tell_loss(f"{declared.BACKENDS.place} is no longer a dict")

    def define(name: str, go_on: Callable[[], Any]) -> Any:
        _operators.setdefault(name, _stack())
        return go_on()

    declared.DEFINE.replace(lambda call: f"{call['self'].ns}::{re.split('[.(]', call['schema'])[0].strip()}", define)


_operators: dict[str, Stack] = {}


def operator_stack(name: str) -> Stack:
    """Return the stack that defined the operator `ns::op`; empty if unknown."""
    return _operators.get(name, ())


def registration_stack(name: str) -> Stack:
    """Return the stack that registered the backend; empty if unknown."""
    table = declared.BACKENDS.find()
    return table.stacks.get(name, ()) if isinstance(table, _Registrations) else ()


def registered_names(function: Any) -> list[str]:
    """Return all names under which this callable is registered."""
    return [name for name, known in (declared.BACKENDS.find() or {}).items() if known is function]


@functools.cache
def entry_point_of(name: str) -> EntryPoint | None:
    """Return the backend's entry point or None. Torch forgets loaded entry points, hence the cache."""
    points = entry_points(group=ENTRY_POINTS, name=name)
    return (declared.LAZY_BACKENDS.find() or {}).get(name) or next(iter(points), None)


def backend_table() -> list[tuple[str, Any, EntryPoint | None]]:
    """Return (name, callable or None if not loaded, entry point or None) of every backend that torch finds."""
    names = torch.compiler.list_backends(exclude_tags=())
    functions = declared.BACKENDS.find() or {}
    return [(name, functions.get(name), entry_point_of(name)) for name in names]


BUILT_IN_MODULES = tuple((module.__name__, module) for module in (_functorch, _autograd))


def operator_path(function: Any) -> str | None:
    """Return the import path of an operator, `torch.ops.aten.tanh.default`; None for another function."""
    if isinstance(function, (OpOverload, OpOverloadPacket)):
        return f"torch.ops.{function}"
    return f"{HIGHER_ORDER}{function}" if isinstance(function, HigherOrderOperator) else None
