"""The problem, prober and budget of a search, its progress and its result."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Protocol

Atoms = frozenset[int]
"""A set of atoms, by number. A candidate has only these atoms."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A graph of atoms.

    `parents[i]` are the atoms whose results atom i reads; each is below i, so the numbers are a topological order.
    `kinds[i]` is the operation of atom i: repeated layers repeat their kinds. `hints` are groups of atoms that the
    failure itself names, the best guess first.

    The graph only steers the search towards likely candidates. Any set of atoms is a valid candidate.

    Raises ValueError if a parent is not below its atom, a hint is no atom, or the lengths differ.
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
        """The number of atoms."""
        return len(self.parents)

    @property
    def everything(self) -> Atoms:
        """The candidate with all atoms."""
        return frozenset(range(self.size))


class Oracle(Protocol):
    """Builds and runs candidates for the search."""

    @property
    def workers(self) -> int:
        """The number of candidates that can be probed at once, at least 1."""
        ...

    def probe(self, candidates: Sequence[Atoms]) -> Sequence[bool]:
        """Return for each candidate, which is the set of atoms that it keeps, whether the sought failure shows.

        There are at most `workers` candidates, none of which was probed before, to be probed at once. The search needs
        the first answer; the others it may need next.
        """
        ...


class KnownAnswers(Protocol):
    """Answers of earlier runs, like a dictionary from candidates to answers. Looking one up costs no probe."""

    def get(self, candidate: Atoms, /) -> bool | None:
        """Return whether the sought failure showed; None if that is not known."""
        ...


class Ending(Enum):
    """Why the search stopped."""

    PROVED = "proved"
    MAX_PROBES = "max-probes"
    DEADLINE = "deadline"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True)
class Budget:
    """When to stop. `deadline` is a reading of the clock `now`, in seconds; None means no limit.

    The search checks the budget between rounds: a running probe is not interrupted.
    """

    max_probes: int | None = None
    deadline: float | None = None
    now: Callable[[], float] = time.monotonic

    @classmethod
    def of(cls, max_probes: int | None, seconds: float | None, started: float) -> Budget:
        """Return a budget whose seconds began at `started`, a reading of `time.monotonic()`."""
        return cls(max_probes, None if seconds is None else started + seconds)

    def ending(self, probes: int) -> Ending | None:
        """Return why the search stops after this number of probes, or None."""
        if self.max_probes is not None and probes >= self.max_probes:
            return Ending.MAX_PROBES
        if self.deadline is not None and self.now() >= self.deadline:
            return Ending.DEADLINE
        return None

    def after(self, probes: int) -> Budget:
        """Return the budget that is left after this number of probes."""
        return self if self.max_probes is None else replace(self, max_probes=max(0, self.max_probes - probes))


class SearchPhase(Enum):
    """The phases of a search, in the order they run."""

    GUESS = "guess"
    PREFIX = "prefix"
    BALL = "ball"
    DELETE = "delete"
    PROVE = "prove"


@dataclass(frozen=True, slots=True)
class SearchProgress:
    """A round that begins, for a progress bar. `atoms` is the size of the best candidate so far; `probes` and `rounds`
    are those before."""

    phase: SearchPhase
    atoms: int
    probes: int
    rounds: int


@dataclass(frozen=True, slots=True)
class PhaseCount:
    """The probes of a phase, including speculation, and the number of atoms before and after."""

    phase: SearchPhase
    probes: int
    before: int
    after: int

    @property
    def name(self) -> str:
        return self.phase.value


@dataclass(frozen=True, slots=True)
class Result:
    """The smallest failing candidate found.

    `probes` counts every candidate that was run, including speculation. `rounds` counts the calls of the prober: with
    enough workers they determine the run time.
    """

    kept: Atoms
    ended: Ending
    probes: int
    rounds: int
    phases: tuple[PhaseCount, ...]

    @property
    def one_minimal(self) -> bool:
        """Whether the failure vanished each time that a kept atom was deleted alone."""
        return self.ended is Ending.PROVED
