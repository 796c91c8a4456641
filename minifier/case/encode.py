"""Plain data to JSON and back: `pack` for our dataclasses, `pack_arg` with tags for arguments of the graph."""

from __future__ import annotations

import dataclasses
import functools
import math
import types
import typing
from enum import Enum
from pathlib import Path
from typing import Any

from minifier.case.graph import Ref
from minifier.case.values import Constant, Imported, Size, SourceExpression
from minifier.errors import CannotSave

Json = Any


def pack_arg(value: Any) -> Json:
    """Return a node's argument as JSON. Raises CannotSave for a value without a readable form."""
    if value is None or isinstance(value, (bool, str)) or type(value) is int:
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": repr(value)}
    if isinstance(value, complex):
        return {"complex": [pack_arg(value.real), pack_arg(value.imag)]}
    if isinstance(value, Ref):
        return {"node": value.name}
    if isinstance(value, Constant):
        return {value.kind: value.name}
    if isinstance(value, Imported):
        return {"object": value.path}
    if isinstance(value, SourceExpression):
        return {"made": [value.expression, list(value.imports), list(value.names)]}
    if isinstance(value, Size):
        return {"size": [pack_arg(item) for item in value.items]}
    if isinstance(value, tuple):
        return {"tuple": [pack_arg(item) for item in value]}
    if isinstance(value, list):
        return [pack_arg(item) for item in value]
    if isinstance(value, (set, frozenset)):
        return {"set": sorted((pack_arg(item) for item in value), key=repr)}
    if isinstance(value, dict):
        return {"dict": [[pack_arg(key), pack_arg(item)] for key, item in value.items()]}
    if isinstance(value, slice):
        return {"slice": [pack_arg(value.start), pack_arg(value.stop), pack_arg(value.step)]}
    if isinstance(value, range):
        return {"range": [value.start, value.stop, value.step]}
    if value is Ellipsis:
        return {"ellipsis": True}
    raise CannotSave(f"a value of type {type(value).__module__}.{type(value).__qualname__}")


def _source_expression(expression: Json, imports: Json, names: Json) -> SourceExpression:
    if not all(isinstance(text, str) for text in (expression, *imports, *names)):
        raise ValueError("expected an expression, import lines and names, found other things than strings")
    return SourceExpression(expression, tuple(imports), tuple(names))


_TAGS: dict[str, typing.Callable[[Any], Any]] = {
    "float": float,
    "complex": lambda parts: complex(unpack_arg(parts[0]), unpack_arg(parts[1])),
    "node": Ref,
    "object": Imported,
    "made": lambda parts: _source_expression(*parts),
    "size": lambda items: Size(tuple(map(unpack_arg, items))),
    "tuple": lambda items: tuple(map(unpack_arg, items)),
    "set": lambda items: {unpack_arg(item) for item in items},
    "dict": lambda pairs: {unpack_arg(key): unpack_arg(item) for key, item in pairs},
    "slice": lambda parts: slice(*map(unpack_arg, parts)),
    "range": lambda parts: range(*parts),
    "ellipsis": lambda _: Ellipsis,
    **{kind: functools.partial(Constant, kind) for kind in ("dtype", "device", "layout", "memory_format")},
}


def unpack_arg(value: Json) -> Any:
    """Return the argument that `pack_arg` encoded. Raises ValueError for an unknown tag."""
    if isinstance(value, list):
        return [unpack_arg(item) for item in value]
    if isinstance(value, dict):
        if len(value) != 1:
            raise ValueError(f"expected one tag, found {sorted(value)}")
        ((tag, content),) = value.items()
        if tag not in _TAGS:
            raise ValueError(f"unknown tag {tag!r}")
        return _TAGS[tag](content)
    return value


def pack(value: Any) -> Json:
    """Return a dataclass as JSON, with the class's name as `is`."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Path):
        return value.name
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {"is": type(value).__name__, **_pack_fields(value)}
    if isinstance(value, (list, tuple)):
        return [pack(item) for item in value]
    if isinstance(value, dict):
        return {key: pack(item) for key, item in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": repr(value)}
    return value


# Fields with the user's data, written with tags.
_TAGGED_FIELDS = {"args", "kwargs", "plain", "options", "config"}


def _pack_fields(value: Any) -> dict[str, Json]:
    """Return the fields that differ from their default."""
    packed = {}
    for f in dataclasses.fields(value):
        content = getattr(value, f.name)
        default = f.default_factory() if f.default_factory is not dataclasses.MISSING else f.default
        if type(content) is not type(default) or content != default:
            packed[f.name] = pack_arg(content) if f.name in _TAGGED_FIELDS else pack(content)
    return packed


def unpack(kind: Any, value: Json) -> Any:
    """Return the value of this type that `pack` encoded. Raises ValueError, KeyError or TypeError on bad data."""
    origin = typing.get_origin(kind)
    if origin in (typing.Union, types.UnionType):
        return _unpack_union(typing.get_args(kind), value)
    if origin is tuple:
        item_kinds = typing.get_args(kind)
        if not isinstance(value, list):
            raise ValueError(f"expected a list, found {type(value).__name__}")
        if len(item_kinds) == 2 and item_kinds[1] is Ellipsis:
            return tuple(unpack(item_kinds[0], item) for item in value)
        return tuple(unpack(k, item) for k, item in zip(item_kinds, value, strict=True))
    if origin is dict:
        return {key: unpack(typing.get_args(kind)[1], item) for key, item in _mapping(value).items()}
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind(value)
    if dataclasses.is_dataclass(kind):
        return _unpack_dataclass(kind, value)
    if isinstance(value, dict) and set(value) == {"float"}:
        return float(value["float"])
    if kind in (int, float, bool, str) and not isinstance(value, kind):
        if kind is float and isinstance(value, int):
            return value
        raise ValueError(f"expected {kind.__name__}, found {type(value).__name__}")
    return value


@functools.cache
def _hints(kind: Any) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _mapping(value: Json) -> dict[str, Json]:
    if not isinstance(value, dict):
        raise ValueError(f"expected an object, found {type(value).__name__}")
    return value


def _unpack_union(kinds: tuple[Any, ...], value: Json) -> Any:
    if value is None and type(None) in kinds:
        return None
    if isinstance(value, dict) and "is" in value:
        for kind in kinds:
            if dataclasses.is_dataclass(kind) and getattr(kind, "__name__", "") == value["is"]:
                return unpack(kind, value)
        raise ValueError(f"{value['is']!r} is not expected here")
    rest = [k for k in kinds if k is not type(None) and not dataclasses.is_dataclass(k)]
    if not rest:
        raise ValueError(f"expected an object with `is`, found {type(value).__name__}")
    if len(rest) == 1:
        return unpack(rest[0], value)
    return float(value["float"]) if isinstance(value, dict) and set(value) == {"float"} else value


def _unpack_dataclass(kind: Any, value: Json) -> Any:
    data = _mapping(value)
    if data.get("is", kind.__name__) != kind.__name__:
        raise ValueError(f"expected {kind.__name__}, found {data['is']!r}")
    hints = _hints(kind)
    arguments = {}
    for f in dataclasses.fields(kind):
        if f.name in data:
            content = data[f.name]
            arguments[f.name] = unpack_arg(content) if f.name in _TAGGED_FIELDS else unpack(hints[f.name], content)
    unknown = set(data) - set(arguments) - {"is"}
    if unknown:
        raise ValueError(f"{kind.__name__} has no field {sorted(unknown)[0]!r}")
    return kind(**arguments)
