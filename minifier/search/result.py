"""The progress and the result of a search."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from minifier.search.problem import Atoms, Ending


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
