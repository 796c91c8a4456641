"""From the whole graph to the neighbourhood of one needed atom: the prefix and ball phases."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from .dataflow import Dataflow
from .masks import Mask, members
from .result import SearchPhase
from .steps import Ask, Step

RADII = (0, 2, 6)
"""How far around the needed atom to look: itself, a fused pattern, a block such as attention."""

Located: TypeAlias = Callable[[Mask, int], Step]
"""What follows: a failing set, and an atom of it that is needed."""


def prefix(kept: Mask, then: Located) -> Step:
    """Finds, by binary search, a prefix of `kept` that fails while the prefix one atom shorter does not.

    Its last atom is needed. For n atoms that takes log2 n probes, whatever the fault is.
    """
    atoms = members(kept)

    def between(passing: int, failing: int) -> Step:
        shortest = _first(kept, atoms, failing)
        if failing - passing <= 1:
            return then(shortest, atoms[failing - 1])
        middle = (passing + failing) // 2

        def answered(fails: bool) -> Step:
            return between(passing, middle) if fails else between(middle, failing)

        return Ask(SearchPhase.PREFIX, _first(kept, atoms, middle), 0.5, answered)

    return between(0, len(atoms))


def _first(kept: Mask, atoms: list[int], length: int) -> Mask:
    return kept & ((2 << atoms[length - 1]) - 1)


def ball(flow: Dataflow, kept: Mask, needed: int, then: Located, radii: tuple[int, ...] = RADII) -> Step:
    """Tries the needed atom with its ancestors at growing radius; the first ball that fails is kept.

    Most faults are local: one op, or a pattern of a few ops that feed each other.
    """
    if not radii:
        return then(kept, needed)
    candidate = flow.ball([needed], radii[0]) & kept
    if candidate == kept:
        return then(kept, needed)

    def answered(fails: bool) -> Step:
        return then(candidate, needed) if fails else ball(flow, kept, needed, then, radii[1:])

    return Ask(SearchPhase.BALL, candidate, 0.5, answered, inferable=True)
