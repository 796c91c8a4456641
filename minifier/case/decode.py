"""JSON back to plain data: each value is checked against the schema as it is read, and a defect names its place."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import types
import typing
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any

from minifier.case.checks import anything, number
from minifier.case.defects import within
from minifier.case.encode import TAGGED_FIELDS, Json
from minifier.case.graph import Ref
from minifier.case.relations import RELATIONS
from minifier.case.schema import FIELDS
from minifier.case.texts import shown
from minifier.case.values import Constant, Imported, Size, SourceExpression

MAX_DEPTH = 100  # levels of JSON; an argument of a graph has few, each graph in a graph adds four
_TOO_DEEP = f"it is nested deeper than {MAX_DEPTH} levels"

Decoder = Callable[[Any], Any]


def _list(values: Json) -> list[Json]:
    if not isinstance(values, list):
        raise ValueError(f"expected a list, found {type(values).__name__}")
    return values


def _items(values: Json) -> list[Any]:
    return list(_decoded(itertools.repeat(unpack_arg), _list(values)))


def _exactly(count: int, values: list[Any]) -> list[Any]:
    if len(values) != count:
        raise ValueError(f"expected {count} items, found {len(values)}")
    return values


def _hashable(values: list[Any]) -> list[Any]:
    try:
        hash(tuple(values))
    except TypeError as error:
        raise ValueError(f"{error}: it can be no key and no item of a set") from None
    return values


def _complex(parts: Json) -> complex:
    real, imaginary = _exactly(2, _items(parts))
    if not all(isinstance(part, (int, float)) for part in (real, imaginary)):
        raise ValueError("expected two numbers")
    return complex(real, imaginary)


def _dictionary(pairs: Json) -> dict[Any, Any]:
    rows = [_exactly(2, _list(row)) for row in _items(pairs)]
    return dict(zip(_hashable([key for key, _ in rows]), (value for _, value in rows), strict=True))


def _range(parts: Json) -> range:
    start, stop, step = _exactly(3, _items(parts))
    if any(type(part) is not int for part in (start, stop, step)) or not step:
        raise ValueError("expected three integers, the last of them not 0")
    return range(start, stop, step)


def _source_expression(parts: Json) -> SourceExpression:
    expression, imports, names = _exactly(3, _items(parts))
    fields = {"expression": expression, "imports": imports, "names": names}
    found: SourceExpression = unpack(SourceExpression, fields)
    return found


def _non_finite(value: Json) -> float:
    if value not in ("nan", "inf", "-inf"):
        raise ValueError(f"expected nan, inf or -inf, found {shown(value)}")
    return float(value)


_TAGS: dict[str, Decoder] = {
    "float": _non_finite,
    "complex": _complex,
    "node": lambda name: unpack(Ref, {"name": name}),
    "object": lambda path: unpack(Imported, {"path": path}),
    "made": _source_expression,
    "size": lambda items: Size(tuple(_items(items))),
    "tuple": lambda items: tuple(_items(items)),
    "set": lambda items: set(_hashable(_items(items))),
    "dict": _dictionary,
    "slice": lambda parts: slice(*_exactly(3, _items(parts))),
    "range": _range,
    "ellipsis": lambda _: Ellipsis,
}


def _constant(kind: str) -> Decoder:
    return lambda name: unpack(Constant, {"kind": kind, "name": name})


_TAGS |= {kind: _constant(kind) for kind in ("dtype", "device", "layout", "memory_format")}


def unpack_arg(value: Json) -> Any:
    """Return the argument that `pack_arg` encoded. Raises ValueError, with the place in the argument."""
    if value is None or isinstance(value, (str, bool, float)):
        return value
    if isinstance(value, int):
        number(value)
        return value
    if isinstance(value, list):
        return _items(value)
    if len(value) != 1:
        raise ValueError(f"expected one tag, found {shown(sorted(value))}")
    ((tag, content),) = value.items()
    if tag not in _TAGS:
        raise ValueError(f"unknown tag {shown(tag)}")
    return _TAGS[tag](content)


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


def unpack(kind: Any, value: Json) -> Any:
    """Return the value of this type that `pack` encoded, checked against the schema.

    Raises ValueError, with the place of the defect inside the value.
    """
    return _decoder(kind)(value)


@functools.cache
def _decoder(kind: Any) -> Decoder:
    """Return the function that decodes values of this type."""
    origin, kinds = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return _decoder_of_union(kinds)
    if origin is tuple and len(kinds) == 2 and kinds[1] is Ellipsis:
        return _decoder_of_items(kinds[0])
    if origin is tuple:
        return _decoder_of_tuple(kinds)
    if origin is dict:
        return _decoder_of_dictionary(kinds[1])
    if isinstance(kind, type) and issubclass(kind, Enum):
        return functools.partial(_member, kind)
    if dataclasses.is_dataclass(kind):
        return functools.partial(_unpack_dataclass, kind)
    if kind in (int, float, bool, str):
        return functools.partial(_scalar, (kind,))
    return lambda value: _non_finite(value["float"]) if isinstance(value, dict) and set(value) == {"float"} else value


def _scalar(kinds: tuple[type, ...], value: Json) -> Any:
    """Return a value of one of these types; an integer is a float as well, and True no integer."""
    if type(value) in kinds:
        if type(value) is int:
            number(value)
        return value
    if float in kinds and isinstance(value, int) and not isinstance(value, bool):
        number(value)
        return value
    if float in kinds and isinstance(value, dict) and set(value) == {"float"}:
        return _non_finite(value["float"])
    raise ValueError(f"expected {' or '.join(kind.__name__ for kind in kinds)}, found {type(value).__name__}")


def _member(kind: type[Enum], value: Json) -> Enum:
    try:
        return kind(value)
    except (ValueError, TypeError):
        known = ", ".join(str(member.value) for member in kind)
        raise ValueError(f"expected one of {known}; found {shown(value)}") from None


def _decoder_of_items(kind: Any) -> Decoder:
    decode = _decoder(kind)
    return lambda value: _decoded(itertools.repeat(decode), _list(value))


def _decoder_of_tuple(kinds: tuple[Any, ...]) -> Decoder:
    decoders = tuple(map(_decoder, kinds))
    return lambda value: _decoded(decoders, _exactly(len(decoders), _list(value)))


def _decoded(decoders: Iterable[Decoder], values: list[Json]) -> tuple[Any, ...]:
    items = []
    try:
        for value, decode in zip(values, decoders, strict=False):
            items.append(decode(value))
    except ValueError as error:
        raise within(f"[{len(items)}]", error) from None
    return tuple(items)


def _decoder_of_dictionary(kind: Any) -> Decoder:
    decode = _decoder(kind)

    def decode_items(value: Json) -> dict[str, Any]:
        items = {}
        for key, item in _mapping(value).items():
            try:
                items[key] = decode(item)
            except ValueError as error:
                raise within(f"[{shown(key)}]", error) from None
        return items

    return decode_items


def _mapping(value: Json) -> dict[str, Json]:
    if not isinstance(value, dict):
        raise ValueError(f"expected an object, found {type(value).__name__}")
    return value


def _is_class(kind: Any) -> bool:
    return dataclasses.is_dataclass(kind)


def _decoder_of_union(kinds: tuple[Any, ...]) -> Decoder:
    classes = {str(kind.__name__): _decoder(kind) for kind in kinds if _is_class(kind)}
    rest = tuple(kind for kind in kinds if kind is not type(None) and not dataclasses.is_dataclass(kind))
    of_rest = _decoder(rest[0]) if len(rest) == 1 else functools.partial(_scalar, rest)

    def decode(value: Json) -> Any:
        if value is None and type(None) in kinds:
            return None
        if isinstance(value, dict) and "is" in value and classes:
            if not isinstance(value["is"], str) or value["is"] not in classes:
                raise ValueError(f"{shown(value['is'])} is not expected here")
            return classes[value["is"]](value)
        if not rest:
            raise ValueError(f"expected an object with `is`, found {type(value).__name__}")
        return of_rest(value)

    return decode


@functools.cache
def _fields(kind: Any) -> dict[str, tuple[Decoder, Callable[[Any], None], bool]]:
    """Map the name of each field to its decoder, its check in the schema, and whether it must be there."""
    hints, checks = typing.get_type_hints(kind), FIELDS.get(kind, {})
    return {
        f.name: (
            unpack_arg if f.name in TAGGED_FIELDS else _decoder(hints[f.name]),
            checks.get(f.name, anything),
            f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING,
        )
        for f in dataclasses.fields(kind)
    }


def _unpack_dataclass(kind: Any, value: Json) -> Any:
    data = _mapping(value)
    if data.get("is", kind.__name__) != kind.__name__:
        raise ValueError(f"expected {kind.__name__}, found {shown(data['is'])}")
    known, arguments = _fields(kind), {}
    for name, content in data.items():
        if name == "is":
            continue
        if name not in known:
            raise ValueError(f"{kind.__name__} has no field {shown(name)}")
        decode, check, _ = known[name]
        try:
            arguments[name] = decode(content)
            check(arguments[name])
        except ValueError as error:
            raise within(f".{name}", error) from None
    for name, (_, _, is_required) in known.items():
        if is_required and name not in arguments:
            raise ValueError(f"{name!r} is missing")
    result = kind(**arguments)
    RELATIONS.get(kind, anything)(result)
    return result
