"""Plain data as Python source."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from minifier.case.graph import Ref
from minifier.case.values import Constant, Imported, Size, SourceExpression

SCRIPT = "__main__"  # the module that a script is
OF_SCRIPT = f"{SCRIPT}:"  # what a path begins with that leads to something the script itself defines


def _plain_ref(ref: Ref) -> str:
    return ref.name


def literal(value: Any, ref: Callable[[Ref], str] = _plain_ref) -> str:
    """An argument as a person writes it: `torch.float32`, `2:5` inside brackets is left to the caller."""

    def inner(item: Any) -> str:
        return literal(item, ref)

    if isinstance(value, Ref):
        return ref(value)
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    if isinstance(value, complex) and "n" in repr(value):  # of inf or nan
        return f"complex({inner(value.real)}, {inner(value.imag)})"
    if isinstance(value, Constant):
        return repr(value.name) if value.kind == "device" else f"torch.{value.name}"
    if isinstance(value, SourceExpression):
        return value.expression
    if isinstance(value, Imported):
        return value.path.removeprefix(OF_SCRIPT).replace(":", ".")
    if isinstance(value, Size):
        return f"torch.Size([{', '.join(map(inner, value.items))}])"
    if isinstance(value, tuple):
        return f"({', '.join(map(inner, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, list):
        return f"[{', '.join(map(inner, value))}]"
    if isinstance(value, (set, frozenset)):
        return "{" + ", ".join(sorted(map(inner, value))) + "}" if value else "set()"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{inner(key)}: {inner(item)}" for key, item in value.items()) + "}"
    if isinstance(value, slice):
        return f"slice({inner(value.start)}, {inner(value.stop)}, {inner(value.step)})"
    if value is Ellipsis:
        return "..."
    if isinstance(value, str):
        return string(value)
    return repr(value)


def objects_made(value: Any) -> list[SourceExpression]:
    """The objects in a value that an expression makes."""
    if isinstance(value, SourceExpression):
        return [value]
    if isinstance(value, dict):
        value = [*value, *value.values()]
    return [made for item in value for made in objects_made(item)] if isinstance(value, (list, tuple, set)) else []


def imported_paths(value: Any) -> list[str]:
    """Paths of the functions, classes and enum members in a value, which a script has to import."""
    if isinstance(value, Imported):
        return [value.path]
    if isinstance(value, dict):
        value = [*value, *value.values()]
    return [path for item in value for path in imported_paths(item)] if isinstance(value, (list, tuple, set)) else []


def module_of(path: str) -> str:
    """The module that a path of an importable object leads through: of one of torch's, torch."""
    if ":" in path:
        return path.partition(":")[0]
    return "torch" if path.startswith("torch.") else path.rpartition(".")[0]


def string(value: str) -> str:
    """A string in double quotes, as formatters write it."""
    text = repr(value)
    if text.startswith("'") and '"' not in text:
        text = '"' + text[1:-1].replace("\\'", "'") + '"'
    return text


def index(value: Any, ref: Callable[[Ref], str] = _plain_ref) -> str:
    """What stands between the brackets of a subscript: slices with colons, tuples without parentheses."""
    if isinstance(value, slice):
        ends = ["" if part is None else literal(part, ref) for part in (value.start, value.stop, value.step)]
        return ":".join(ends[: 2 if not ends[2] else 3])
    if isinstance(value, tuple) and value:
        parts = (index(item, ref) if isinstance(item, slice) else literal(item, ref) for item in value)
        return ", ".join(parts) + ("," if len(value) == 1 else "")
    return literal(value, ref)
