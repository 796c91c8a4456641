"""Find the needed ones of a few things, each of which is dear to leave out: environment variables, say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

_T = TypeVar("_T")


def fewest(items: Sequence[_T], shows: Callable[[tuple[_T, ...]], bool], most: int) -> tuple[_T, ...]:
    """Return items with which a failure shows, each of them needed; the first `most` that are found, if it takes more.

    `shows` tells it for some of the items, and is true for all. Finding n of m items takes about n log2 m of its calls.
    """
    needed: list[_T] = []
    remaining = tuple(items)
    while remaining and len(needed) < most and not shows(tuple(needed)):
        without, enough = 0, len(remaining)
        while enough - without > 1:  # of the first `enough`, the last is needed
            middle = (without + enough) // 2
            if shows((*needed, *remaining[:middle])):
                enough = middle
            else:
                without = middle
        needed.append(remaining[enough - 1])
        remaining = remaining[: enough - 1]
    return tuple(needed)
