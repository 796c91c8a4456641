"""Plain data to JSON and back: `pack` for our dataclasses, `pack_arg` with tags for arguments of the graph.

Both go through the fields of a dataclass by their types. `unpack` checks each value against the schema as it is read,
and a defect names its place.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import types
import typing
from collections.abc import Callable, Sequence
from enum import Enum
from pathlib import Path
from typing import Any, NewType

from minifier.data.case.graph import Ref
from minifier.data.case.schema import FIELDS, RELATIONS
from minifier.data.case.texts import shown
from minifier.data.case.value_checks import Check, anything, at, number, within
from minifier.data.case.values import Constant, Imported, Size, SourceExpression
from minifier.errors import CannotSave

Json = Any
Decoder = Callable[[Json], Any]
Argument = NewType("Argument", object)  # of a node: written with tags

MAX_DEPTH = 100  # levels of JSON; an argument of a graph has few, each graph in a graph adds four
_TOO_DEEP = f"it is nested deeper than {MAX_DEPTH} levels"
# Fields with the user's data, written with tags.
_TAGGED_FIELDS = ("args", "kwargs", "plain", "options", "config")


def pack(value: Any) -> Json:
    """Return a dataclass as JSON, with the class's name as `is`, and the fields that differ from their default."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Path):
        return value.name
    if isinstance(value, (list, tuple)):
        return [pack(item) for item in value]
    if isinstance(value, dict):
        return {key: pack(item) for key, item in value.items()}
    if isinstance(value, float):
        return _pack_float(value)
    if not dataclasses.is_dataclass(value):
        return value
    kind: Any = type(value)
    packed = {"is": kind.__name__}
    for name, (_, _, default) in _fields(kind).items():
        content = getattr(value, name)
        if type(content) is not type(default) or content != default:
            packed[name] = pack_arg(content) if name in _TAGGED_FIELDS else pack(content)
    return packed


def unpack(kind: Any, value: Json) -> Any:
    """Return the value of this type that `pack` encoded, checked against the schema.

    Raises ValueError, with the place of the defect inside the value.
    """
    return _decoder(kind)(value)


def parsed(text: str) -> Json:
    """Return the JSON value. Raises ValueError, also for a value that is nested more than MAX_DEPTH levels deep."""
    try:
        value = json.loads(text, parse_constant=_no_json)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    level = [value] if isinstance(value, (dict, list)) else []
    for _ in range(MAX_DEPTH + 1):
        if not level:
            return value
        children = [item.values() if isinstance(item, dict) else item for item in level]
        level = [item for items in children for item in items if isinstance(item, (dict, list))]
    raise ValueError(_TOO_DEEP)


def _no_json(name: str) -> Json:
    raise ValueError(f"{name} is no JSON")


# Numbers and text.


def _pack_float(value: float) -> Json:
    return value if math.isfinite(value) else {"float": repr(value)}


def _non_finite(value: Json) -> float:
    if value not in ("nan", "inf", "-inf"):
        raise ValueError(f"expected nan, inf or -inf, found {shown(value)}")
    return float(value)


def _is_tagged_float(value: Json) -> bool:
    return isinstance(value, dict) and set(value) == {"float"}


def _scalar(kinds: Sequence[type], value: Json) -> Any:
    """Return a value of one of these types; an integer is a float as well, and True no integer."""
    if float in kinds and _is_tagged_float(value):
        return _non_finite(value["float"])
    if type(value) not in kinds and not (float in kinds and type(value) is int):
        raise ValueError(f"expected {' or '.join(kind.__name__ for kind in kinds)}, found {type(value).__name__}")
    number(value)
    return value


def _member(kind: type[Enum], value: Json) -> Enum:
    try:
        return kind(value)
    except (ValueError, TypeError):
        known = ", ".join(str(member.value) for member in kind)
        raise ValueError(f"expected one of {known}; found {shown(value)}") from None


# Lists and objects. The first defect ends the reading: a damaged file may have millions.


def _of(kind: type, value: Json) -> Any:
    if type(value) is not kind:
        raise ValueError(f"expected {'a list' if kind is list else 'an object'}, found {type(value).__name__}")
    return value


def _tuple(kinds: Sequence[Any], value: Json) -> tuple[Any, ...]:
    if len(_of(list, value)) != len(kinds):
        raise ValueError(f"expected {len(kinds)} items, found {len(value)}")
    return tuple(at(i, _decoder(kind), item) for i, (kind, item) in enumerate(zip(kinds, value, strict=True)))


@functools.cache
def _decoder(kind: Any) -> Decoder:
    """Return the function that decodes values of this type."""
    origin, kinds = typing.get_origin(kind), typing.get_args(kind)
    if kind is Argument:
        return unpack_arg
    if origin is tuple and kinds[-1] is Ellipsis:
        decode = _decoder(kinds[0])
        return lambda value: tuple(at(i, decode, item) for i, item in enumerate(_of(list, value)))
    if origin is tuple:
        return functools.partial(_tuple, kinds)
    if origin is dict:
        decode = _decoder(kinds[1])
        return lambda value: {key: at(key, decode, item) for key, item in _of(dict, value).items()}
    if origin in (typing.Union, types.UnionType):
        return _decoder_of_union(kinds)
    if dataclasses.is_dataclass(kind):
        return functools.partial(_dataclass, kind)
    if kind is Any:
        return lambda value: _non_finite(value["float"]) if _is_tagged_float(value) else value
    return functools.partial(_member, kind) if issubclass(kind, Enum) else functools.partial(_scalar, (kind,))


def _is_class(kind: Any) -> bool:
    return dataclasses.is_dataclass(kind)


def _decoder_of_union(kinds: tuple[Any, ...]) -> Decoder:
    """Return the decoder of None and of scalars, dataclasses, which `is` tells apart, or one other type."""
    rest = [kind for kind in kinds if kind is not types.NoneType]
    classes: dict[str, Any] = {kind.__name__: kind for kind in rest if _is_class(kind)}

    def tagged(value: Json) -> Any:
        name = _of(dict, value).get("is")
        if not isinstance(name, str) or name not in classes:
            raise ValueError(f"expected `is` with one of {', '.join(classes)}; found {shown(name)}")
        return unpack(classes[name], value)

    scalars = functools.partial(_scalar, rest)
    decode = _decoder(rest[0]) if len(rest) == 1 else tagged if classes else scalars
    return lambda value: None if value is None and types.NoneType in kinds else decode(value)


# Dataclasses.


@functools.cache
def _fields(kind: Any) -> dict[str, tuple[Decoder, Check, Any]]:
    """Map the name of each field to its decoder, its check in the schema, and the function that returns its default."""
    hints, checks = typing.get_type_hints(kind), FIELDS.get(kind, {})
    return {
        f.name: (
            _decoder(Argument if f.name in _TAGGED_FIELDS else hints[f.name]),
            checks.get(f.name, anything),
            f.default if f.default_factory is dataclasses.MISSING else f.default_factory(),
        )
        for f in dataclasses.fields(kind)
    }


def _dataclass(kind: Any, value: Json) -> Any:
    fields, content = _fields(kind), {"is": kind.__name__, **_of(dict, value)}
    if content.pop("is") != kind.__name__:
        raise ValueError(f"expected {kind.__name__}, found {shown(value['is'])}")
    for name, item in content.items():
        if name not in fields:
            raise ValueError(f"{kind.__name__} has no field {shown(name)}")
        decode, check, _ = fields[name]
        try:
            content[name] = decode(item)
            check(content[name])
        except ValueError as error:
            raise within(f".{name}", error) from None
    for name, (_, _, default) in fields.items():
        if default is dataclasses.MISSING and name not in content:
            raise ValueError(f"{name!r} is missing")
    result = kind(**content)
    RELATIONS.get(kind, anything)(result)
    return result


# Arguments of the graph, and other data of the user.


def pack_arg(value: Any) -> Json:
    """Return a node's argument as JSON. Raises CannotSave for a value without a readable form."""
    if value is None or isinstance(value, (bool, str)) or type(value) is int:
        return value
    if isinstance(value, float):
        return _pack_float(value)
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


def unpack_arg(value: Json) -> Any:
    """Return the argument that `pack_arg` encoded. Raises ValueError, with the place in the argument."""
    if value is None or isinstance(value, (str, bool, float)):
        return value
    if isinstance(value, int):
        number(value)
        return value
    if isinstance(value, list):
        return list(_items(value))
    if len(value) != 1:
        raise ValueError(f"expected one tag, found {shown(sorted(value))}")
    ((tag, content),) = value.items()
    if tag not in _TAGS:
        raise ValueError(f"unknown tag {shown(tag)}")
    return _TAGS[tag](content)


_items = functools.partial(unpack, tuple[Argument, ...])


def _hashable(values: tuple[Any, ...]) -> tuple[Any, ...]:
    try:
        hash(values)
    except TypeError as error:
        raise ValueError(f"{error}: it can be no key and no item of a set") from None
    return values


def _dictionary(pairs: Json) -> dict[Any, Any]:
    rows = unpack(tuple[tuple[Argument, Argument], ...], pairs)
    return dict(zip(_hashable(tuple(key for key, _ in rows)), (value for _, value in rows), strict=True))


def _source_expression(parts: Json) -> Any:
    expression, imports, names = unpack(tuple[str, tuple[str, ...], tuple[str, ...]], parts)
    return unpack(SourceExpression, {"expression": expression, "imports": list(imports), "names": list(names)})


def _constant(kind: str, name: Json) -> Any:
    return unpack(Constant, {"kind": kind, "name": name})


_TAGS: dict[str, Callable[[Json], Any]] = {
    "float": _non_finite,
    "complex": lambda parts: complex(*unpack(tuple[float, float], parts)),
    "node": lambda name: unpack(Ref, {"name": name}),
    "object": lambda path: unpack(Imported, {"path": path}),
    "made": _source_expression,
    "size": lambda items: Size(_items(items)),
    "tuple": _items,
    "set": lambda items: set(_hashable(_items(items))),
    "dict": _dictionary,
    "slice": lambda parts: slice(*unpack(tuple[Argument, Argument, Argument], parts)),
    "range": lambda parts: range(*unpack(tuple[int, int, int], parts)),
    "ellipsis": lambda _: Ellipsis,
    **{kind: functools.partial(_constant, kind) for kind in ("dtype", "device", "layout", "memory_format")},
}
