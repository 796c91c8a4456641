"""Describe the script's own code in an object such as a backend, and the data that this code reads, as a text."""

from __future__ import annotations

import dis
import functools
import hashlib
import inspect
import re
import sys
import types
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from enum import Enum
from pathlib import PurePath
from typing import Any

import torch

_CONSTANTS = (type(None), bool, int, float, complex, str, bytes, type(...), torch.dtype, torch.device, PurePath)
_DATA = re.compile("\x01[^\x02]*\x02")  # no `repr` has these characters
_CONTAINERS = (list, tuple, set, frozenset, dict)
_FLAGS = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS | inspect.CO_GENERATOR | inspect.CO_COROUTINE
_INITIALISING = ("__init__", "__new__", "__post_init__")
_MAX_DEPTH = 20  # of objects in objects
_MAX_OBJECTS = 5_000
_MAX_ENTRIES = 1000  # of a container that is read
_MAX_TENSOR_ELEMENTS = 16  # of a tensor that counts as a constant


def digest(text: str) -> str:
    """Return a short digest of a text."""
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:16]


def code_text(code: types.CodeType) -> str:
    """Return what a code object does, wherever it stands: its instructions, constants and names."""
    constants = [code_text(each) if isinstance(each, types.CodeType) else _constant(each) for each in code.co_consts]
    names = code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars
    return repr(
        (code.co_code.hex(), constants, names, code.co_argcount, code.co_kwonlyargcount, code.co_flags & _FLAGS)
    )


def _constant(value: object) -> str:
    return repr(sorted(map(repr, value))) if isinstance(value, frozenset) else repr(value)


def nested_codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """Yield a code object, and all code objects in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from nested_codes(constant)


def described(value: Any, is_own: Callable[[str], bool]) -> tuple[str, str, list[types.CodeType]]:
    """Return two texts that say what the own code in this object does, and this code.

    Two backends with the same texts are the same backend. `is_own` tells whether a file is the script's. The second
    text has the data that the own code reads; with the same first text, two backends may differ in their data.
    """
    names: set[str] = set()
    while True:  # attributes count that the own code names, and these may hold more own code
        description = _Description(is_own, names)
        text = description.of(value, is_foreign=True)
        if description.names <= names:
            return _DATA.sub("", text), text, list(description.codes)
        names |= description.names


class _Description:
    """Describes objects. A foreign object is looked through for own code: what it holds besides is not the script's.

    Modules of the model and large tensors are left out: they change when the script is reduced.
    """

    def __init__(self, is_own: Callable[[str], bool], names: Collection[str]) -> None:
        self.codes: dict[types.CodeType, None] = {}
        self.names = set(names)
        self._is_own = is_own
        self._seen: dict[int, tuple[int, object]] = {}  # its number, and the object, which has to live
        # These leave no trace in the text: a logger leads to all loggers of the process, in each run to others.
        self._seen_foreign: dict[int, tuple[int, object]] = {}
        self._classes: set[type] = set()  # of objects
        self._depth = 0

    def of(self, value: Any, is_foreign: bool = False) -> str:
        """Describe an object that own code reads, or an object that is held by a foreign one."""
        is_foreign = is_foreign and not self._is_own_object(value)
        if isinstance(value, _CONSTANTS):
            return "" if is_foreign else _data(repr(value))
        if isinstance(value, (torch.nn.Module, types.CodeType)):
            return ""
        seen = self._seen_foreign if is_foreign else self._seen
        if (known := seen.get(id(value))) is not None:
            return "" if is_foreign else f"<{known[0]}>"
        if self._depth == _MAX_DEPTH or len(seen) == _MAX_OBJECTS:
            return "" if is_foreign else "..."
        seen[id(value)] = len(seen), value
        self._depth += 1
        try:
            return self._in_foreign(value) if is_foreign else self._of_object(value)
        finally:
            self._depth -= 1

    def _of_each(self, values: Iterable[Any], is_foreign: bool = False) -> str:
        return ", ".join(filter(None, (self.of(value, is_foreign) for value in values)))

    def _of_object(self, value: Any) -> str:
        if isinstance(value, types.FunctionType) and self._is_own_object(value):
            return self._of_function(value)
        if isinstance(value, types.MethodType):
            return f"method({self._of_each((value.__func__, value.__self__))})"
        if isinstance(value, (staticmethod, classmethod)):
            return self.of(value.__func__)
        if isinstance(value, property):
            return self._of_each((value.fget, value.fset))
        if isinstance(value, functools.partial):
            return f"partial({self._of_each((value.func, value.args, value.keywords))})"
        if isinstance(value, _CONTAINERS):
            return self._of_container(value)
        if isinstance(value, re.Pattern):
            return self.of(value.pattern)
        if isinstance(value, torch.Tensor):
            return self._of_tensor(value)
        if isinstance(value, Enum):
            return f"{type(value).__name__}.{value.name}"
        if isinstance(value, type):
            return self._of_class(value) if self._is_own_object(value) else value.__qualname__
        if isinstance(value, types.ModuleType):
            members = {name: each for name, each in sorted(vars(value).items()) if name in self.names}
            return self.of(members) if self._is_own_object(value) else value.__name__
        if self._is_own_object(value):
            attributes = {name: each for name, each in _attributes(value).items() if name in self.names}
            return f"object({self._of_class_of(value)}, {self.of(attributes)})"
        return f"{getattr(value, '__name__', type(value).__qualname__)}({self._in_foreign(value)})"

    def _in_foreign(self, value: Any) -> str:
        held: Iterable[Any]
        if isinstance(value, (torch.Tensor, types.ModuleType, type)):
            return ""
        if isinstance(value, _CONTAINERS):
            return self._of_container(value, is_foreign=True)
        if isinstance(value, functools.partial):
            held = value.func, value.args, value.keywords
        elif isinstance(value, types.MethodType):
            held = value.__func__, value.__self__
        elif isinstance(value, types.FunctionType):
            held = _closure(value), value.__defaults__, value.__kwdefaults__, vars(value)
        else:
            held = (_attributes(value),)
        return self._of_each(held, is_foreign=True)

    def _of_function(self, function: types.FunctionType) -> str:
        self.codes[function.__code__] = None
        codes = list(nested_codes(function.__code__))
        self.names.update(name for code in codes for name in code.co_names)
        read = sorted({name for code in codes for name in _globals_read(code)} & function.__globals__.keys())
        held = [_closure(function), function.__defaults__, function.__kwdefaults__, vars(function)]
        held += [{name: function.__globals__[name] for name in read}]
        return f"function({code_text(function.__code__)}, {self._of_each(held)})"

    def _of_class(self, value: type) -> str:
        members = {name: each for name, each in vars(value).items() if name in self.names or _is_special(name, each)}
        return f"class({self._of_each(value.__bases__)}, {self.of(members)})"

    def _of_class_of(self, value: object) -> str:
        """Describe what the methods of an object do: what initialised it has left its attributes."""
        texts = []
        for kind in type(value).__mro__:
            if kind not in self._classes and self._is_own_object(kind):
                self._classes.add(kind)
                names = [name for name, each in vars(kind).items() if name in self.names or _is_special(name, each)]
                texts.append(self.of({name: vars(kind)[name] for name in names if name not in _INITIALISING}))
        return f"class({', '.join(texts)})"

    def _of_container(self, value: Any, is_foreign: bool = False) -> str:
        if len(value) > _MAX_ENTRIES:
            return "" if is_foreign else _data(str(len(value)))
        entries = [self.of(each, is_foreign) for each in (value.items() if isinstance(value, dict) else value)]
        is_sorted = isinstance(value, (set, frozenset))
        text = ", ".join(filter(None, sorted(entries) if is_sorted else entries))
        return text if is_foreign else f"[{text}]"

    def _of_tensor(self, value: torch.Tensor) -> str:
        is_constant = type(value) is torch.Tensor and value.device.type == "cpu" and not value.requires_grad
        is_read = is_constant and value.numel() <= _MAX_TENSOR_ELEMENTS
        return _data(f"{value.dtype}{value.tolist()}") if is_read else ""

    def _is_own_object(self, value: Any) -> bool:
        """Whether a function, method, class or module, or the class of another object, is the script's."""
        if isinstance(value, functools.partial):
            return self._is_own_object(value.func)
        if isinstance(value, types.MethodType):
            value = value.__func__
        if isinstance(value, types.FunctionType):
            return self._is_own(value.__code__.co_filename)
        if isinstance(value, types.ModuleType):
            return self._is_own(getattr(value, "__file__", None) or "")
        kind = value if isinstance(value, type) else type(value)
        if any(isinstance(each, types.FunctionType) and self._is_own_object(each) for each in vars(kind).values()):
            return True
        module = sys.modules.get(kind.__module__)
        return module is not None and self._is_own_object(module)


def _data(text: str) -> str:
    return f"\x01{text}\x02"


def _is_special(name: str, member: object) -> bool:
    return name.startswith("__") and isinstance(member, types.FunctionType)


def _attributes(value: Any) -> dict[str, Any]:
    slots = [name for kind in type(value).__mro__ for name in _slots(kind)]
    return {**{name: getattr(value, name, None) for name in slots}, **getattr(value, "__dict__", {})}


def _slots(kind: type) -> Sequence[str]:
    slots = vars(kind).get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)


def _closure(function: types.FunctionType) -> dict[str, Any]:
    """Return the variables of enclosing functions that the function reads, except for those without a value."""
    cells: dict[str, Any] = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            cells[name] = cell.cell_contents
        except ValueError:
            continue
    return cells


def _globals_read(code: types.CodeType) -> set[str]:
    return {each.argval for each in dis.get_instructions(code) if each.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
