"""Functions by their import paths, and FX arguments and example values as plain data, both ways."""

from __future__ import annotations

import enum
import functools
import importlib
import math
import operator
from collections.abc import Callable, Mapping
from types import BuiltinFunctionType, ModuleType
from typing import Any

import torch

from minifier.data.case import Opaque, Scalar, Sequence_, TensorMeta
from minifier.data.case.graph import Ref
from minifier.data.case.literals import SCRIPT
from minifier.data.case.values import Constant, Imported, Size, SourceExpression, Value
from minifier.errors import CannotSave
from minifier.torch_side.fx.script_objects import evaluated, in_script
from minifier.torch_side.torch_private import graphs, registrations

_KINDS: dict[type, str] = {torch.dtype: "dtype", torch.layout: "layout", torch.memory_format: "memory_format"}


def short(value: object) -> str:
    """Return `float32` for torch.float32."""
    return str(value).removeprefix("torch.")


def read(value: Any, symbols: Mapping[str, str] | None = None) -> Any:
    """Return an FX argument as plain data. Raises CannotSave with the type's name.

    A symbolic number that is no node becomes a Ref: `symbols` maps expressions to node names.
    """
    if isinstance(value, torch.fx.Node):
        return Ref(value.name)
    if value is None or value is Ellipsis or type(value) in (bool, int, float, str, complex, range):
        return value
    if type(value) in _KINDS:
        return Constant(_KINDS[type(value)], short(value))
    if isinstance(value, torch.device):
        return Constant("device", str(value))
    if isinstance(value, torch.Size):
        return Size(tuple(read(item, symbols) for item in value))
    if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        expression = graphs.expression_of(value)
        if expression is None:
            return graphs.as_hint(value)
        if expression in (symbols or {}):
            return Ref((symbols or {})[expression])
        raise CannotSave(f"the symbolic number {value}, written into the graph as a constant")
    if isinstance(value, enum.Enum):
        return Imported(f"{type(value).__module__}:{type(value).__qualname__}.{value.name}")
    if isinstance(value, slice):
        return slice(read(value.start, symbols), read(value.stop, symbols), read(value.step, symbols))
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        return tuple(read(item, symbols) for item in value)
    if isinstance(value, (list, torch.fx.immutable_collections.immutable_list)):
        return [read(item, symbols) for item in value]
    if isinstance(value, dict):
        return {read(key, symbols): read(item, symbols) for key, item in value.items()}
    if isinstance(value, (set, frozenset)):
        return {read(item, symbols) for item in value}
    if callable(value):
        return Imported(path_of(value))
    raise CannotSave(f"a value of type {type(value).__module__}.{type(value).__qualname__}")


def _no_node(name: str) -> Any:
    raise KeyError(f"{name} is the name of a node, but this value belongs to no graph")


def write(value: Any, node: Callable[[str], Any] = _no_node) -> Any:
    """Return the argument that `read` converted; `node` returns the object for a Ref."""
    if isinstance(value, Ref):
        return node(value.name)
    if isinstance(value, Constant):
        return torch.device(value.name) if value.kind == "device" else getattr(torch, value.name)
    if isinstance(value, Imported):
        return resolve(value.path)
    if isinstance(value, SourceExpression):
        return evaluated(value.expression, value.imports)
    if isinstance(value, Size):
        items = tuple(write(item, node) for item in value.items)
        return items if any(isinstance(item, torch.fx.Node) for item in items) else torch.Size(items)
    if isinstance(value, slice):
        return slice(write(value.start, node), write(value.stop, node), write(value.step, node))
    if isinstance(value, tuple):
        return tuple(write(item, node) for item in value)
    if isinstance(value, list):
        return [write(item, node) for item in value]
    if isinstance(value, dict):
        return {key: write(item, node) for key, item in value.items()}
    return value


def meta_of(value: Any, storages: dict[object, int]) -> Value:
    """Return a node's Value from its example value; `storages` numbers storages in order of appearance."""
    if isinstance(value, torch.Tensor):
        return tensor_meta(value, storages)
    if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return Scalar(graphs.as_hint(value), symbol=graphs.expression_of(value))
    if value is None or isinstance(value, (bool, int, float, str)):
        return Scalar(value)
    if isinstance(value, (tuple, list)):
        return Sequence_(tuple(meta_of(item, storages) for item in value))
    return Opaque(f"{type(value).__module__}.{type(value).__qualname__}")


def tensor_meta(tensor: torch.Tensor, storages: dict[object, int]) -> TensorMeta:
    """Return the tensor's metadata, with hints in place of symbolic sizes."""
    strided = tensor.layout == torch.strided
    key = graphs.storage_key(tensor)
    number = None if key is None else storages.setdefault(key, len(storages))
    symbols = tuple(map(graphs.expression_of, tensor.shape))
    return TensorMeta(
        shape=tuple(int(graphs.as_hint(size) or 0) for size in tensor.shape),
        stride=tuple(int(graphs.as_hint(step) or 0) for step in tensor.stride()) if strided else (),
        dtype=short(tensor.dtype),
        device=str(tensor.device),
        requires_grad=tensor.requires_grad,
        storage=number,
        offset=int(graphs.as_hint(tensor.storage_offset()) or 0) if strided else 0,
        symbols=symbols if any(symbols) else (),
    )


_PUBLIC: tuple[tuple[str, ModuleType | type], ...] = (
    ("torch", torch),
    ("torch.nn.functional", torch.nn.functional),
    ("operator", operator),
    ("math", math),
    ("torch.special", torch.special),
    ("torch.linalg", torch.linalg),
    ("torch.fft", torch.fft),
    ("torch.Tensor", torch.Tensor),
    *registrations.BUILT_IN_MODULES,
)


def resolve(path: str) -> Any:
    """Return the object at `module.name` or `module:qualname`. Raises ImportError or AttributeError.

    A name of the script is read anew: its definitions may have been run again, changed."""
    module, _, rest = path.partition(":")
    return evaluated(rest) if module == SCRIPT and rest else _imported(path)


@functools.cache
def _imported(path: str) -> Any:
    if ":" in path:
        module, _, rest = path.partition(":")
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
    if (operator := registrations.operator_path(function)) is not None:
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
