"""The progress and the result of a search."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from .problem import Atoms


class SearchPhase(Enum):
    """The phases of a search, in the order they run."""

    GUESS = "guess"
    PREFIX = "prefix"
    BALL = "ball"
    DELETE = "delete"
    PROVE = "prove"


class Ending(Enum):
    """Why the search stopped."""

    PROVED = "proved"
    MAX_PROBES = "max-probes"
    DEADLINE = "deadline"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True)
class SearchProgress:
    """A finished round, for a progress bar. `atoms` is the size of the best candidate so far.
    `failing` tells whether the candidate that the search needed showed the failure."""

    phase: SearchPhase
    atoms: int
    probes: int
    rounds: int
    failing: bool


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
