"""Finds a minimal failing set of atoms in few probes. Atoms are integers here, and a probe is a predicate.

`reduce` searches; docs/explanation/how-it-finds-the-ops.md explains its phases and their cost. `gallop` only deletes.
"""

from __future__ import annotations

from collections.abc import Callable

from .atoms import mask_of
from .phases import fewest, gallop_over, plan, proving
from .problem import (
    Atoms,
    Budget,
    Ending,
    KnownAnswers,
    Oracle,
    PhaseCount,
    Problem,
    Result,
    SearchPhase,
    SearchProgress,
)
from .walk import Done, Walk

__all__ = [
    "Atoms",
    "Budget",
    "Ending",
    "KnownAnswers",
    "Oracle",
    "PhaseCount",
    "Problem",
    "Result",
    "SearchPhase",
    "SearchProgress",
    "fewest",
    "gallop",
    "reduce",
]


UNLIMITED = Budget()
NOTHING: dict[Atoms, bool] = {}


def reduce(
    problem: Problem,
    prober: Oracle,
    *,
    known: KnownAnswers = NOTHING,
    budget: Budget = UNLIMITED,
    on_progress: Callable[[SearchProgress], None] | None = None,
    only_proof: bool = False,
) -> Result:
    """Reduce `problem` to atoms that fail together and of which none can be deleted alone.

    All atoms together are assumed to fail; they are not probed. `known` has earlier answers (of the check, or of a
    journal), which are not probed again: a resumed search ends with the result of an uninterrupted search.
    `on_progress` is called before each round. `only_proof` begins with the proof, for atoms that are minimal in all
    likelihood.

    The result is the same for any number of workers if the prober's answers are a function of the candidate. After
    the budget, or a KeyboardInterrupt, the smallest failing candidate is returned.

    Raises ValueError if the prober returns too few or too many answers; passes on the prober's exceptions.
    """
    everything = mask_of(problem.everything)
    first = proving(everything) if only_proof else plan(problem)
    return Walk(prober, known, budget, on_progress).run(everything, first)


def gallop(
    size: int, prober: Oracle, *, first: int = 0, budget: Budget = UNLIMITED, known: KnownAnswers = NOTHING
) -> tuple[Atoms, Ending | None]:
    """Delete the atoms below `size` in their order, in groups, the first of `first` atoms (0: all of them).

    Return the atoms that are left, and why the deletion stopped early, if it did. All atoms together are assumed to
    fail. Nothing is proved: each atom that is left was refused once, maybe ahead of later deletions.
    """
    everything = mask_of(range(size))
    result = Walk(prober, known, budget, None).run(everything, gallop_over(everything, range(size), first, Done))
    return result.kept, None if result.ended is Ending.PROVED else result.ended
