"""What is to be reduced, who answers, and for how long: the values a caller hands in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

Atoms = frozenset[int]
"""A set of atoms, by number. As a candidate: the atoms that are left."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A graph of atoms, as far as the search wants to know it.

    `parents[i]` are the atoms whose results atom i reads; each is below i, so the numbers are a
    topological order. `kinds[i]` is what atom i does: a layer that repeats repeats its kinds. `hints` are
    groups of atoms that the failure itself names, the best guess first; there may be none.

    The graph only steers the search towards likely candidates. Any set of atoms is a valid candidate, and
    no answer is taken from the graph.

    Raises ValueError where a parent is not below its atom, a hint is no atom, or the lengths differ.
    """

    parents: tuple[tuple[int, ...], ...]
    kinds: tuple[str, ...]
    hints: tuple[tuple[int, ...], ...] = ()

    def __post_init__(self) -> None:
        if len(self.kinds) != len(self.parents):
            raise ValueError(f"{len(self.parents)} atoms, but {len(self.kinds)} kinds")
        for atom, parents in enumerate(self.parents):
            if not all(0 <= parent < atom for parent in parents):
                raise ValueError(f"atom {atom} reads {parents}: every parent must be below {atom}")
        for hint in self.hints:
            if not all(0 <= atom < self.size for atom in hint):
                raise ValueError(f"hint {hint} names an atom outside 0..{self.size - 1}")

    @property
    def size(self) -> int:
        """How many atoms there are."""
        return len(self.parents)

    @property
    def everything(self) -> Atoms:
        """The candidate from which nothing is taken away."""
        return frozenset(range(self.size))


class Oracle(Protocol):
    """Builds and runs candidates; the search's only view of the world."""

    @property
    def workers(self) -> int:
        """How many candidates it can probe at once, at least 1."""
        ...

    def probe(self, candidates: Sequence[Atoms]) -> Sequence[bool]:
        """Does each candidate show the sought failure?

        One answer a candidate, in order. There are at most `workers` candidates, never one that was
        probed before. The search needs the first answer; the others are speculation.
        """
        ...


@dataclass(frozen=True, slots=True)
class Budget:
    """When to stop. `deadline` is a reading of `time.monotonic()`, in seconds; None is no limit.

    Looked at between rounds: a probe that has begun is not cut short.
    """

    max_probes: int | None = None
    deadline: float | None = None
