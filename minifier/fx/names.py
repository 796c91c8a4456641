"""Import paths of functions that a graph calls, and back: `torch.nn.functional.gelu` for torch._C._nn.gelu."""

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
from minifier.fx.holders import in_script
from minifier.fx.script_definitions import evaluated
from minifier.torch_private import BUILT_IN_MODULES, operator_path

_PUBLIC: tuple[tuple[str, ModuleType | type], ...] = (
    ("torch", torch),
    ("torch.nn.functional", torch.nn.functional),
    ("operator", operator),
    ("math", math),
    ("torch.special", torch.special),
    ("torch.linalg", torch.linalg),
    ("torch.fft", torch.fft),
    ("torch.Tensor", torch.Tensor),
    *BUILT_IN_MODULES,
)


@functools.cache
def resolve(path: str) -> Any:
    """Return the object at `module.name` or `module:qualname`. Raises ImportError or AttributeError."""
    if ":" in path:
        module, _, rest = path.partition(":")
        if module == SCRIPT:
            return evaluated(rest)
        root: Any = importlib.import_module(module)
        return functools.reduce(getattr, rest.split("."), root)
    parts = path.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            root = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError as error:
            if error.name is not None and not path.startswith(error.name):
                raise
            continue
        return functools.reduce(getattr, parts[cut:], root)
    raise ImportError(f"no module provides {path}")


def _resolves_to(path: str, expected: object) -> bool:
    try:
        return resolve(path) is expected
    except (ImportError, AttributeError):
        return False


@functools.cache
def _renamed_builtins() -> dict[int, str]:
    """Return the paths, by id, of functions whose `__name__` differs: torch.special.i0 has special_i0."""
    modules = (("torch.special", torch.special), ("torch.linalg", torch.linalg), ("torch.fft", torch.fft))
    members = ((f"{path}.{name}", f) for path, module in modules for name, f in vars(module).items())
    return {id(f): path for path, f in members if isinstance(f, BuiltinFunctionType)}


def path_of(function: Callable[..., Any]) -> str:
    """Return the function's import path, public if possible; `__main__:name` for a function of the script.

    Raises CannotSave for a function without an import path, for example a lambda or a closure.
    """
    if (operator := operator_path(function)) is not None:
        return operator
    name = getattr(function, "__name__", None) or str(function)
    for prefix, module in _PUBLIC:
        if getattr(module, name, None) is function:
            return f"{prefix}.{name}"
    if id(function) in _renamed_builtins():
        return _renamed_builtins()[id(function)]
    module_name = getattr(function, "__module__", None) or ""
    qualname = getattr(function, "__qualname__", name)
    if module_name == SCRIPT:
        expression = in_script(function)
        if expression is None:
            raise CannotSave(f"the function {qualname}, which the failing script holds under no name of its own")
        return f"{SCRIPT}:{expression}"
    # The colon ends the module to import.
    is_torch = module_name.partition(".")[0] == "torch" and "." not in qualname
    path = f"{module_name}{'.' if is_torch else ':'}{qualname}"
    if module_name and "<" not in path and _resolves_to(path, function):
        return path
    raise CannotSave(f"the function {module_name}.{qualname}, which no import statement reaches")
