"""Finds a smallest set of atoms that still fails, in few probes. Knows integers and a predicate only.

`reduce` is the one function; docs/explanation/how-it-finds-the-ops.md has its phases and their costs.
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
    """Reduces `problem` to atoms that fail and of which none can be deleted alone.

    All atoms together are taken to fail; nothing is asked about them. `known` holds answers from before
    (the check's, or a journal's): none of them is asked again, and with a journal of the same search the
    result is that of the uninterrupted one. `on_progress` is called after each round.

    The result is the same for any number of workers, as long as the prober's answers are a function of
    the candidate. When the budget is spent, or a KeyboardInterrupt comes, the smallest candidate seen to
    fail is returned; any other exception of the prober is passed on.

    Raises ValueError where the prober does not give one answer a candidate.
    """
    return Walk(prober, known, budget, on_progress).run(mask_of(problem.everything), plan(problem))
