"""Plain data to JSON: `pack` for our dataclasses, `pack_arg` with tags for arguments of the graph."""

from __future__ import annotations

import dataclasses
import math
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
TAGGED_FIELDS = {"args", "kwargs", "plain", "options", "config"}


def _pack_fields(value: Any) -> dict[str, Json]:
    """Return the fields that differ from their default."""
    packed = {}
    for f in dataclasses.fields(value):
        content = getattr(value, f.name)
        default = f.default_factory() if f.default_factory is not dataclasses.MISSING else f.default
        if type(content) is not type(default) or content != default:
            packed[f.name] = pack_arg(content) if f.name in TAGGED_FIELDS else pack(content)
    return packed
