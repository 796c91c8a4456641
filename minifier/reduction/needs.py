"""What a failure takes, told by what made it go: sizes, dtypes, layout and values that no pass could make plainer."""

from __future__ import annotations

from dataclasses import replace

from minifier.case import Case
from minifier.passes.sizes import to_number
from minifier.reduction.simplify import Simplifier, Spent

_IN_REPRO = ("sizes", "dims", "dtypes", "layout", "data")  # what a reader of a script would not see in it
_SIZE = "size "


def with_needs(simplifier: Simplifier) -> Case:
    """The Case with sentences on what it cannot do without. A size is tried one larger and twice as large, to tell a
    least size from one that has to be met."""
    found: list[str] = []
    for family, name in simplifier.refused:
        if family not in _IN_REPRO:
            continue
        sentence = _sized(simplifier, int(name.removeprefix(_SIZE))) if name.startswith(_SIZE) else _plain(family, name)
        found += [sentence] if sentence and sentence not in found else []
    return replace(simplifier.case, needs=tuple(found))


def _sized(simplifier: Simplifier, size: int) -> str:
    try:
        if simplifier.shows(to_number(size, size + 1)) is not False:
            return f"a size of {size} or more"
        if simplifier.shows(to_number(size, 2 * size)):
            return f"a size that is a multiple of {size}"
    except Spent:
        return f"a size of {size}"
    return f"a size of exactly {size}"


def _plain(family: str, name: str) -> str:
    if family == "dims":
        return name.replace("first of ", "an input of ") if name.startswith("first of") else ""
    if family == "dtypes":
        return name
    if family == "layout":
        return "an input that is not contiguous"
    return "these values" if family == "data" else ""
