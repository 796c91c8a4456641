"""Where a search stands in the tree of its questions, and where it is likely to go from there."""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count

from .masks import Mask, within
from .steps import Ask, Step

LOOKAHEAD = 8
"""Questions passed through, for each worker, in search of one that is worth a speculative probe."""


@dataclass(frozen=True, slots=True)
class Place:
    """A step of the tree, with the candidates that did not fail on the way to it."""

    step: Step
    passing: tuple[Mask, ...] = ()

    def after(self, ask: Ask, fails: bool) -> Place:
        """The place that an answer to this place's question leads to."""
        return Place(ask.answered(fails), self.passing if fails else (*self.passing, ask.candidate))

    def answer(self, ask: Ask, answers: Mapping[Mask, bool]) -> bool | None:
        """The answer to this place's question, where it needs no probe.

        Domination counts only answers on the way to this place, and comes before all other answers. So
        neither speculation nor a journal changes what is inferred, and the result is the same with any
        number of workers, and after a resume.
        """
        if ask.inferable and any(within(ask.candidate, larger) for larger in self.passing):
            return False
        return answers.get(ask.candidate)


def foresee(place: Place, answers: Mapping[Mask, bool], wanted: int) -> list[Ask]:
    """Up to `wanted` questions: the one asked here, then those most likely to be asked after it.

    Looks down both branches of each unanswered question, the likelier first. For a binary search with c
    workers this is a search of nearly c + 1 ways; for the proof, whose answers are nearly always "no", it
    is the next c atoms.
    """
    picked: dict[Mask, Ask] = {}
    tie = count()
    ahead = [(-1.0, next(tie), place)]
    for _ in range(LOOKAHEAD * wanted):
        if not ahead or len(picked) == wanted:
            break
        weight, _, here = heapq.heappop(ahead)
        ask = here.step
        if not isinstance(ask, Ask):
            continue
        fails = here.answer(ask, answers)
        if fails is not None:
            heapq.heappush(ahead, (weight, next(tie), here.after(ask, fails)))
            continue
        picked.setdefault(ask.candidate, ask)
        if len(picked) < wanted:
            heapq.heappush(ahead, (weight * ask.chance, next(tie), here.after(ask, True)))
            heapq.heappush(ahead, (weight * (1 - ask.chance), next(tie), here.after(ask, False)))
    return list(picked.values())
