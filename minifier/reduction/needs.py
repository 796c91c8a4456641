"""What a failure takes, told by what made it go: sizes, dtypes, layout and values that no pass could make plainer."""

from __future__ import annotations

from dataclasses import replace

from minifier.case import Case, Drawn, TensorInput
from minifier.passes.data import plain
from minifier.passes.sizes import to_number
from minifier.reduction.simplify import Simplifier, Spent

_IN_REPRO = ("sizes", "dims", "dtypes", "layout")  # what a reader of a script would not see in it
_SIZE = "size "


def with_needs(simplifier: Simplifier) -> Case:
    """The Case with sentences on what it cannot do without. A size is tried one larger and twice as large, to tell a
    least size from one that has to be met."""
    found: list[str] = []
    for family, name in simplifier.refused:
        if family in _IN_REPRO:
            found.append(_sized(simplifier, name) if name.startswith(_SIZE) else _plain(family, name))
    found += [_values(item) for item in simplifier.case.inputs if isinstance(item, TensorInput)]
    return replace(simplifier.case, needs=tuple(dict.fromkeys(filter(None, found))))


def _sized(simplifier: Simplifier, name: str) -> str:
    size = int(name.removeprefix(_SIZE))
    try:
        larger = simplifier.shows(to_number(size, size + 1))
        if larger:
            return f"a size of {size} or more"
        if simplifier.shows(to_number(size, 2 * size)):
            return f"a size that is a multiple of {size}"
    except Spent:
        larger = None
    return f"a size of {size}" if larger is None else f"a size of exactly {size}"


def _values(item: TensorInput) -> str:
    """What is said of values that are not as plain as can be."""
    if item.source == plain(item, None):
        return ""
    if not isinstance(item.source, Drawn) or item.source.how == "list":
        return "these values"
    return "values in a range" if item.source.how in ("rand", "full", "randint") else ""


def _plain(family: str, name: str) -> str:
    if family == "dims":
        return name.replace("first of ", "an input of ") if name.startswith("first of") else ""
    if family == "dtypes":
        return name
    return "an input that is not contiguous" if family == "layout" else ""
