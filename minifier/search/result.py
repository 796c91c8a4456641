"""What the search says: as it goes, and at the end."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from .problem import Atoms


class SearchPhase(Enum):
    """The parts of a search, in the order they run."""

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
    """One finished round, for a progress bar: `atoms` is the size of the best so far, `failing` whether
    the candidate the search needed showed the failure."""

    phase: SearchPhase
    atoms: int
    probes: int
    rounds: int
    failing: bool


@dataclass(frozen=True, slots=True)
class PhaseCount:
    """What one phase cost (probes, speculation included) and gained (atoms before and after)."""

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

    `probes` counts every candidate that was run, speculation included; `rounds` counts the calls of the
    prober, which is what takes time when it has workers enough.
    """

    kept: Atoms
    ended: Ending
    probes: int
    rounds: int
    phases: tuple[PhaseCount, ...]

    @property
    def one_minimal(self) -> bool:
        """Was each kept atom deleted alone, and the failure seen to be gone every time?"""
        return self.ended is Ending.PROVED
