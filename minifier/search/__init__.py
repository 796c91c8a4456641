"""Finds a minimal failing set of atoms in few probes. Atoms are integers here, and a probe is a predicate.

The only function is `reduce`; docs/explanation/how-it-finds-the-ops.md explains its phases and their cost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from .masks import mask_of
from .phases import plan
from .problem import Atoms, Budget, Ending, Oracle, Problem
from .result import PhaseCount, Result, SearchPhase, SearchProgress
from .walk import Walk

__all__ = [
    "Atoms",
    "Budget",
    "Ending",
    "Oracle",
    "PhaseCount",
    "Problem",
    "Result",
    "SearchPhase",
    "SearchProgress",
    "reduce",
]


UNLIMITED = Budget()


def reduce(
    problem: Problem,
    prober: Oracle,
    *,
    known: Mapping[Atoms, bool] = {},
    budget: Budget = UNLIMITED,
    on_progress: Callable[[SearchProgress], None] | None = None,
) -> Result:
    """Reduce `problem` to atoms that fail together and of which none can be deleted alone.

    All atoms together are assumed to fail; they are not probed. `known` holds earlier answers (of the check, or of a
    journal), which are not probed again: a resumed search ends with the result of an uninterrupted search.
    `on_progress` is called before each round.

    The result is the same for any number of workers if the prober's answers are a function of the candidate. After
    the budget, or a KeyboardInterrupt, the smallest failing candidate is returned.

    Raises ValueError if the prober returns too few or too many answers; passes on the prober's exceptions.
    """
    return Walk(prober, known, budget, on_progress).run(mask_of(problem.everything), plan(problem))
