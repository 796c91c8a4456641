"""The graph, as adjacency: who feeds whom, at what distance, in what order."""

from __future__ import annotations

from collections.abc import Iterable

from .masks import Mask, mask_of
from .problem import Problem


class Dataflow:
    """Questions about a problem's graph. Each answer takes time linear in what it visits."""

    def __init__(self, problem: Problem) -> None:
        self._parents = problem.parents

    def ball(self, centre: Iterable[int], radius: int) -> Mask:
        """Some atoms with their ancestors at most `radius` edges away."""
        reached = set(centre)
        rim = reached
        for _ in range(radius):
            rim = {parent for atom in rim for parent in self._parents[atom]} - reached
            reached |= rim
        return mask_of(reached)

    def neighbours(self, centre: Iterable[int]) -> Mask:
        """Some atoms with all that they read and all that read them."""
        inside = set(centre)
        children = (atom for atom, parents in enumerate(self._parents) if not inside.isdisjoint(parents))
        return self.ball(inside, 1) | mask_of(children)

    def depth_first(self, start: int, wanted: Mask) -> tuple[int, ...]:
        """The wanted atoms, as a depth-first walk over inputs meets them; `start` comes first.

        The walk goes through atoms that are not wanted too, so that neighbours stay neighbours after a
        cut. What cannot be reached from `start` follows, from the last atom to the first.
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
