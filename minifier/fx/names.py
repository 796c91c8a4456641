"""Importable names for what a graph calls, and back: `torch.nn.functional.gelu` for torch._C._nn.gelu."""

from __future__ import annotations

import functools
import importlib
import math
import operator
from collections.abc import Callable
from types import BuiltinFunctionType, ModuleType
from typing import Any

import torch

from minifier.case.literals import SCRIPT
from minifier.errors import CannotSave
from minifier.fx.script_definitions import evaluated, expression_in_script

_PUBLIC: tuple[tuple[str, ModuleType | type], ...] = (
    ("torch", torch),
    ("torch.nn.functional", torch.nn.functional),
    ("operator", operator),
    ("math", math),
    ("torch.special", torch.special),
    ("torch.linalg", torch.linalg),
    ("torch.fft", torch.fft),
    ("torch.Tensor", torch.Tensor),
    # Built-in functions of torch.func's that do not know where they are.
    ("torch._C._functorch", torch._C._functorch),
    ("torch._C._autograd", torch._C._autograd),
)


@functools.cache
def resolve(path: str) -> Any:
    """The object at a dotted path; `module:qualname` splits it where that is needed.

    Raises ImportError or AttributeError, as the import system does.
    """
    if ":" in path:
        module, _, rest = path.partition(":")
        if module == SCRIPT:
            return evaluated(rest)
        found: Any = importlib.import_module(module)
        return functools.reduce(getattr, rest.split("."), found)
    parts = path.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError as error:
            if error.name is not None and not path.startswith(error.name):
                raise
            continue
        return functools.reduce(getattr, parts[cut:], found)
    raise ImportError(f"no module provides {path}")


def _is_at(path: str, wanted: object) -> bool:
    try:
        return resolve(path) is wanted
    except (ImportError, AttributeError):
        return False


@functools.cache
def _held() -> dict[int, str]:
    """Where functions are held that have another name of their own: torch.special.i0 calls itself special_i0."""
    modules = (("torch.special", torch.special), ("torch.linalg", torch.linalg), ("torch.fft", torch.fft))
    held = ((f"{path}.{name}", f) for path, module in modules for name, f in vars(module).items())
    return {id(f): path for path, f in held if isinstance(f, BuiltinFunctionType)}


def path_of(function: Callable[..., Any]) -> str:
    """The path under which the function can be imported, public where there is one; `__main__:name` of one that the
    script itself defines.

    Raises CannotSave for a function that no import reaches: a lambda, a closure.
    """
    name = getattr(function, "__name__", None) or str(function)
    if isinstance(function, (torch._ops.OpOverload, torch._ops.OpOverloadPacket)):
        return f"torch.ops.{function}"
    if isinstance(function, torch._ops.HigherOrderOperator):
        return f"torch.ops.higher_order.{name}"
    for prefix, module in _PUBLIC:
        if getattr(module, name, None) is function:
            return f"{prefix}.{name}"
    if id(function) in _held():
        return _held()[id(function)]
    module_name = getattr(function, "__module__", None) or ""
    qualname = getattr(function, "__qualname__", name)
    if module_name == SCRIPT:
        name_there = expression_in_script(function)
        if name_there is None:
            raise CannotSave(f"the function {qualname}, which the failing script holds under no name of its own")
        return f"{SCRIPT}:{name_there}"
    # With a colon where the module ends: what it must be imported by is part of the name.
    is_torch = module_name.partition(".")[0] == "torch" and "." not in qualname
    path = f"{module_name}{'.' if is_torch else ':'}{qualname}"
    if module_name and "<" not in path and _is_at(path, function):
        return path
    raise CannotSave(f"the function {module_name}.{qualname}, which no import statement reaches")
