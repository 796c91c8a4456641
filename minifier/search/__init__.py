"""Finds a minimal set of atoms that still fails, in few probes. It knows only integers and a predicate.

The only function is `reduce`; docs/explanation/how-it-finds-the-ops.md explains its phases and their cost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from .masks import mask_of
from .phases import plan
from .problem import Atoms, Budget, Oracle, Problem
from .result import Ending, PhaseCount, Result, SearchPhase, SearchProgress
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
    journal), which are not probed again: a resumed search has the result of an uninterrupted one. `on_progress` is
    called after each round.

    The result is the same for any number of workers if the prober's answers are a function of the candidate. After
    the budget, or a KeyboardInterrupt, the smallest failing candidate is returned.

    Raises ValueError if the prober does not return one answer for each candidate; passes on its other exceptions.
    """
    return Walk(prober, known, budget, on_progress).run(mask_of(problem.everything), plan(problem))
