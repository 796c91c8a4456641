"""The prefix and ball phases: from the whole graph to the neighbourhood of a needed atom."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from minifier.search.dataflow import Dataflow
from minifier.search.masks import Mask, members
from minifier.search.result import SearchPhase
from minifier.search.steps import Ask, Step

RADII = (0, 2, 6)
"""How far around the needed atom to look: itself, a fused pattern, a block such as attention."""

Located: TypeAlias = Callable[[Mask, int], Step]
"""The next phase, called with a failing set and a needed atom of it."""


def prefix(kept: Mask, then: Located) -> Step:
    """Find, by binary search, a failing prefix of `kept` that passes without its last atom.

    That atom is needed. For n atoms this takes log2 n probes, for any fault.
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
    """Try the needed atom with its ancestors at growing radius; keep the first ball that fails.

    Most faults are local: a single op, or a pattern of a few ops that feed each other.
    """
    if not radii:
        return then(kept, needed)
    candidate = flow.ball([needed], radii[0]) & kept
    if candidate == kept:
        return then(kept, needed)

    def answered(fails: bool) -> Step:
        return then(candidate, needed) if fails else ball(flow, kept, needed, then, radii[1:])

    return Ask(SearchPhase.BALL, candidate, 0.5, answered, inferable=True)
