"""Likely candidates, probed before any search: atoms that the error names, and the first atom of each kind."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from minifier.search.dataflow import Dataflow
from minifier.search.masks import Mask, mask_of, size, within
from minifier.search.problem import Problem
from minifier.search.result import SearchPhase
from minifier.search.steps import Ask, Reduced, Step

MAX_HINT_GUESSES = 6

SMALL_SET_ATOMS = 2
"""A failing set of this size needs no better guess."""


def guess(problem: Problem, flow: Dataflow, kept: Mask, then: Reduced) -> Step:
    """Try likely candidates, from the boldest to the safest; keep each failing candidate.

    Costs at most 7 probes, and 1 without hints. notes/search.md has measurements of these guesses and of others.
    """
    hinted = islice(_distinct(_from_hints(problem, flow)), MAX_HINT_GUESSES)
    repetition = mask_of(first_of_each_kind(problem, range(problem.size)))
    return _try((*hinted, repetition), kept, then)


def _try(guesses: tuple[Mask, ...], kept: Mask, then: Reduced) -> Step:
    if not guesses or size(kept) <= SMALL_SET_ATOMS:
        return then(kept)
    candidate, rest = guesses[0], guesses[1:]
    if candidate == kept or not within(candidate, kept):
        return _try(rest, kept, then)

    def answered(fails: bool) -> Step:
        return _try(rest, candidate if fails else kept, then)

    return Ask(SearchPhase.GUESS, candidate, 0.5, answered, inferable=True)


def _from_hints(problem: Problem, flow: Dataflow) -> Iterator[Mask]:
    """Yield the atoms of the hints, then their surroundings; the best hint first."""
    hints = [sorted(hint) for hint in problem.hints if hint]
    yield from (mask_of(first_of_each_kind(problem, hint)) for hint in hints)
    yield from (mask_of(hint) for hint in hints)
    yield from (flow.neighbours(hint) for hint in hints)
    yield from (flow.ball(hint, 2) for hint in hints)


def _distinct(guesses: Iterable[Mask]) -> Iterator[Mask]:
    return iter(dict.fromkeys(guesses))


def first_of_each_kind(problem: Problem, atoms: Iterable[int]) -> list[int]:
    """Return the first atom of each kind.

    Real networks repeat a dozen kinds hundreds of times; a backend that fails on a kind mostly fails on its first atom.
    """
    firsts: dict[str, int] = {}
    for atom in atoms:
        firsts.setdefault(problem.kinds[atom], atom)
    return list(firsts.values())
