"""Candidates worth a probe before any search: what the error names, and what repetition suggests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from .dataflow import Dataflow
from .masks import Mask, mask_of, size, within
from .problem import Problem
from .result import SearchPhase
from .steps import Ask, Reduced, Step

MOST_HINTED = 6
"""Guesses from hints, at most."""

TINY = 2
"""A failing set of this size needs no better guess."""


def guess(problem: Problem, flow: Dataflow, kept: Mask, then: Reduced) -> Step:
    """Tries likely candidates, from the boldest to the safest; one that fails is kept.

    Costs at most 7 probes, and 1 where nothing is hinted. What earns its place here, and what did not,
    is measured in notes/search.md.
    """
    hinted = islice(_distinct(_from_hints(problem, flow)), MOST_HINTED)
    repetition = mask_of(first_of_each_kind(problem, range(problem.size)))
    return _try((*hinted, repetition), kept, then)


def _try(guesses: tuple[Mask, ...], kept: Mask, then: Reduced) -> Step:
    if not guesses or size(kept) <= TINY:
        return then(kept)
    candidate, rest = guesses[0], guesses[1:]
    if candidate == kept or not within(candidate, kept):
        return _try(rest, kept, then)

    def answered(fails: bool) -> Step:
        return _try(rest, candidate if fails else kept, then)

    return Ask(SearchPhase.GUESS, candidate, 0.5, answered, inferable=True)


def _from_hints(problem: Problem, flow: Dataflow) -> Iterator[Mask]:
    """The hints' own atoms first, then what lies around them; within that, the best hint first."""
    hints = [sorted(hint) for hint in problem.hints if hint]
    yield from (mask_of(first_of_each_kind(problem, hint)) for hint in hints)
    yield from (mask_of(hint) for hint in hints)
    yield from (flow.neighbours(hint) for hint in hints)
    yield from (flow.ball(hint, 2) for hint in hints)


def _distinct(guesses: Iterable[Mask]) -> Iterator[Mask]:
    return iter(dict.fromkeys(guesses))


def first_of_each_kind(problem: Problem, atoms: Iterable[int]) -> list[int]:
    """For each kind among some atoms, the first atom of it.

    Real networks repeat a dozen kinds hundreds of times; a backend that fails on a kind of op mostly
    fails on the first one of it.
    """
    firsts: dict[str, int] = {}
    for atom in atoms:
        firsts.setdefault(problem.kinds[atom], atom)
    return list(firsts.values())
