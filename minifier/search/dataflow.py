"""The graph of atoms: neighbours, distances and orders."""

from __future__ import annotations

from collections.abc import Iterable

from minifier.search.masks import Mask, mask_of
from minifier.search.problem import Problem


class Dataflow:
    """Answers questions about a problem's graph, in time linear in the atoms visited."""

    def __init__(self, problem: Problem) -> None:
        self._parents = problem.parents

    def ball(self, centre: Iterable[int], radius: int) -> Mask:
        """Return the atoms of `centre`, with their ancestors at most `radius` edges away."""
        reached = set(centre)
        rim = reached
        for _ in range(radius):
            rim = {parent for atom in rim for parent in self._parents[atom]} - reached
            reached |= rim
        return mask_of(reached)

    def neighbours(self, centre: Iterable[int]) -> Mask:
        """Return the atoms of `centre`, with their parents and children."""
        inside = set(centre)
        children = (atom for atom, parents in enumerate(self._parents) if not inside.isdisjoint(parents))
        return self.ball(inside, 1) | mask_of(children)

    def depth_first(self, start: int, wanted: Mask) -> tuple[int, ...]:
        """Return the wanted atoms in the order of a depth-first walk over inputs from `start`.

        The walk also goes through unwanted atoms, so that neighbours stay neighbours after a cut. Unreachable atoms
        follow, walked from the last to the first.
        """
        seen = bytearray(len(self._parents))
        order: list[int] = []
        for root in (start, *reversed(range(len(self._parents)))):
            stack = [root]
            while stack:
                atom = stack.pop()
                if seen[atom]:
                    continue
                seen[atom] = True
                if wanted >> atom & 1:
                    order.append(atom)
                stack.extend(reversed(self._parents[atom]))
        return tuple(order)
