"""Sets of atoms as bits of an integer, and the graph of atoms: neighbours, distances and orders."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import compress, count

from .problem import Atoms, Problem

Mask = int
"""A set of atoms: bit i is set when atom i is in it."""

_BIT = bytes(byte == ord("1") for byte in range(256))


def mask_of(atoms: Iterable[int]) -> Mask:
    """Return the mask of the atoms."""
    bits = bytearray()
    for atom in atoms:
        if atom >> 3 >= len(bits):
            bits.extend(bytes((atom >> 3) + 1 - len(bits)))
        bits[atom >> 3] |= 1 << (atom & 7)
    return int.from_bytes(bits, "little")


def members(mask: Mask) -> list[int]:
    """Return the atoms in a mask, ascending."""
    digits = f"{mask:b}".encode().translate(_BIT)
    return list(compress(count(), reversed(digits)))


def atoms_of(mask: Mask) -> Atoms:
    """Return a mask as the set of atoms for a prober."""
    return frozenset(members(mask))


def size(mask: Mask) -> int:
    """Return the number of atoms in a mask."""
    return mask.bit_count()


def within(small: Mask, large: Mask) -> bool:
    """Return whether the first is a subset of the second."""
    return small & large == small


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
