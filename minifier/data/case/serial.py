"""Plain data to JSON and back: `pack` for our dataclasses, `pack_arg` with tags for arguments of the graph.

Both go through the fields of a dataclass by their types. `unpack` asks the check of a field's type
(minifier.data.fields) and then the method `check` of the dataclass, if it has one; a defect names its place.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import types
import typing
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

from minifier.data.case.graph import Ref
from minifier.data.case.values import Constant, Imported, Size, SourceExpression
from minifier.data.fields import Check, number, shown, within
from minifier.errors import CannotSave

Json = Any
Decoder = Callable[[Json], Any]

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
    for name, (_, default) in _fields(kind).items():
        content = getattr(value, name)
        if type(content) is not type(default) or content != default:
            packed[name] = pack_arg(content) if name in _TAGGED_FIELDS else pack(content)
    return packed


def unpack(kind: Any, value: Json) -> Any:
    """Return the value of this type that `pack` encoded.

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


def _scalar(kinds: Sequence[type], value: Json) -> Any:
    """Return a value of one of these types; an integer is a float as well, and True no integer."""
    if float in kinds and isinstance(value, dict) and set(value) == {"float"}:
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


def at(key: object, read: Decoder, value: Any) -> Any:
    """Return what `read` makes of the item at this key or position; its defect has the place."""
    try:
        return read(value)
    except ValueError as error:
        raise within(f"[{shown(key)}]", error) from None


def _of(kind: type, value: Json) -> Any:
    if not isinstance(value, (list, tuple) if kind is list else kind):  # a tuple was read with tags
        raise ValueError(f"expected {'a list' if kind is list else 'an object'}, found {type(value).__name__}")
    return value


def _items(decoders: Sequence[Decoder] | Decoder, value: Json) -> tuple[Any, ...]:
    """Return the items, each read by its own decoder, or all by one."""
    each = [decoders] * len(_of(list, value)) if callable(decoders) else decoders
    if len(_of(list, value)) != len(each):
        raise ValueError(f"expected {len(each)} items, found {len(value)}")
    return tuple(at(i, decode, item) for i, (decode, item) in enumerate(zip(each, value, strict=True)))


def _pairs(of_key: Decoder, of_value: Decoder, value: Json) -> dict[Any, Any]:
    return {at(key, of_key, key): at(key, of_value, item) for key, item in _of(dict, value).items()}


def _checked(decode: Decoder, check: Check, value: Json) -> Any:
    result = decode(value)
    check(result)
    return result


@functools.cache
def _decoder(kind: Any) -> Decoder:
    origin, kinds = typing.get_origin(kind), typing.get_args(kind)
    if origin is Annotated:
        return functools.partial(_checked, _decoder(kinds[0]), kinds[1])
    if origin is tuple:
        return functools.partial(_items, _decoder(kinds[0]) if kinds[-1] is Ellipsis else [*map(_decoder, kinds)])
    if origin is dict:
        return functools.partial(_pairs, *map(_decoder, kinds))
    if origin in (typing.Union, types.UnionType):
        return _decoder_of_union(kinds)
    if dataclasses.is_dataclass(kind):
        return lambda value: unpack_fields(kind, value)
    if kind is Any:
        return lambda value: value
    return functools.partial(_member, kind) if issubclass(kind, Enum) else functools.partial(_scalar, (kind,))


def _decoder_of_union(kinds: tuple[Any, ...]) -> Decoder:
    """Return the decoder of None and of scalars, dataclasses, which `is` tells apart, or one other type."""
    rest: list[type] = [kind for kind in kinds if kind is not types.NoneType]
    classes: dict[str, Any] = {kind.__name__: kind for kind in rest if dataclasses.is_dataclass(kind)}

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
def _fields(kind: Any) -> dict[str, tuple[Decoder, Any]]:
    hints = typing.get_type_hints(kind, include_extras=True)
    return {
        f.name: (
            _decoder(hints[f.name]),
            f.default if f.default_factory is dataclasses.MISSING else f.default_factory(),
        )
        for f in dataclasses.fields(kind)
    }


def unpack_fields(kind: Any, value: Json, **known: Any) -> Any:
    """Return the dataclass whose fields `pack` encoded, apart from the `known` ones. Raises ValueError as `unpack`."""
    fields, content = _fields(kind), {"is": kind.__name__, **_of(dict, value)}
    if content.pop("is") != kind.__name__:
        raise ValueError(f"expected {kind.__name__}, found {shown(value['is'])}")
    for name, item in content.items():
        if name not in fields or name in known:
            raise ValueError(f"{kind.__name__} has no field {shown(name)}")
        try:
            content[name] = fields[name][0](unpack_arg(item) if name in _TAGGED_FIELDS else item)
        except ValueError as error:
            raise within(f".{name}", error) from None
    for name, (_, default) in fields.items():
        if default is dataclasses.MISSING and name not in content and name not in known:
            raise ValueError(f"{name!r} is missing")
    result = kind(**content, **known)
    if hasattr(result, "check"):
        result.check()
    return result


# Arguments of the graph, and other data of the user.


def pack_arg(value: Any) -> Json:
    """Return a node's argument as JSON. Raises CannotSave for a value without a readable form."""
    if value is None or isinstance(value, (bool, str)) or type(value) is int:
        return value
    if isinstance(value, float):
        return _pack_float(value)
    if isinstance(value, list):
        return _packed(value)
    if isinstance(value, Constant):
        return {value.kind: value.name}
    for tag, (kinds, write, _) in _FORMS.items():
        if isinstance(value, kinds):
            return {tag: write(value)}
    raise CannotSave(f"a value of type {type(value).__module__}.{type(value).__qualname__}")


def _packed(values: Iterable[Any]) -> Json:
    return [pack_arg(value) for value in values]


def unpack_arg(value: Json) -> Any:
    """Return the argument that `pack_arg` encoded. Raises ValueError, with the place in the argument."""
    if value is None or isinstance(value, (str, bool, float)):
        return value
    if isinstance(value, int):
        number(value)
        return value
    if isinstance(value, list):
        return list(_arguments(value))
    if len(value) != 1:
        raise ValueError(f"expected one tag, found {shown(sorted(value))}")
    ((tag, content),) = value.items()
    if tag == "float":
        return _non_finite(content)
    if tag in _CONSTANTS:
        return unpack(Constant, {"kind": tag, "name": content})
    if tag not in _FORMS:
        raise ValueError(f"unknown tag {shown(tag)}")
    return _FORMS[tag][2](content)


def _arguments(value: Json) -> tuple[Any, ...]:
    return _items(unpack_arg, value)


def _hashable(values: tuple[Any, ...]) -> tuple[Any, ...]:
    try:
        hash(values)
    except TypeError as error:
        raise ValueError(f"{error}: it can be no key and no item of a set") from None
    return values


def _dictionary(pairs: Json) -> dict[Any, Any]:
    rows = _items(functools.partial(_items, [unpack_arg, unpack_arg]), pairs)
    return dict(zip(_hashable(tuple(key for key, _ in rows)), (value for _, value in rows), strict=True))


def _source_expression(parts: Json) -> Any:
    expression, imports, names = unpack(tuple[str, tuple[str, ...], tuple[str, ...]], parts)
    return unpack(SourceExpression, {"expression": expression, "imports": list(imports), "names": list(names)})


_CONSTANTS = ("dtype", "device", "layout", "memory_format")
# By tag: the classes of the value, how it is written behind the tag, and read.
_FORMS: dict[str, tuple[Any, Callable[[Any], Json], Decoder]] = {
    "complex": (
        complex,
        lambda value: _packed((value.real, value.imag)),
        lambda parts: complex(*unpack(tuple[float, float], parts)),
    ),
    "node": (Ref, lambda ref: ref.name, lambda name: unpack(Ref, {"name": name})),
    "object": (Imported, lambda value: value.path, lambda path: unpack(Imported, {"path": path})),
    "made": (SourceExpression, lambda made: [made.expression, [*made.imports], [*made.names]], _source_expression),
    "size": (Size, lambda size: _packed(size.items), lambda items: Size(_arguments(items))),
    "tuple": (tuple, _packed, _arguments),
    "set": (
        (set, frozenset),
        lambda values: sorted(_packed(values), key=repr),
        lambda items: set(_hashable(_arguments(items))),
    ),
    "dict": (dict, lambda value: [_packed(pair) for pair in value.items()], _dictionary),
    "slice": (
        slice,
        lambda value: _packed((value.start, value.stop, value.step)),
        lambda parts: slice(*_items([unpack_arg] * 3, parts)),
    ),
    "range": (
        range,
        lambda value: [value.start, value.stop, value.step],
        lambda parts: range(*unpack(tuple[int, int, int], parts)),
    ),
    "ellipsis": (type(...), lambda _: True, lambda _: ...),
}
