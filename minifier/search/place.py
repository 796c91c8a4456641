"""A search's place in the tree of its questions, and the likely next questions."""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count

from minifier.search.masks import Mask, within
from minifier.search.steps import Ask, Step

LOOKAHEAD = 8
"""Questions visited, for each worker, to find one for a speculative probe."""


@dataclass(frozen=True, slots=True)
class Place:
    """A step of the tree, with the candidates that passed on the way there."""

    step: Step
    passing: tuple[Mask, ...] = ()

    def after(self, ask: Ask, fails: bool) -> Place:
        """Return the place after an answer to this place's question."""
        return Place(ask.answered(fails), self.passing if fails else (*self.passing, ask.candidate))

    def answer(self, ask: Ask, answers: Mapping[Mask, bool]) -> bool | None:
        """Return the answer to this place's question, or None if a probe is needed.

        Domination uses only answers on the way to this place, and precedes all other answers. So neither speculation
        nor a journal changes the inferences: the result is the same for any number of workers, and after a resume.
        """
        if ask.inferable and any(within(ask.candidate, larger) for larger in self.passing):
            return False
        return answers.get(ask.candidate)


def foresee(place: Place, answers: Mapping[Mask, bool], wanted: int) -> list[Ask]:
    """Return up to `wanted` questions: the question of this place, then the most likely next questions.

    Both branches of each unanswered question are followed, the likelier first. With c workers, a binary search becomes
    nearly (c + 1)-ary. The proof, whose answers are nearly always "no", asks about the next c atoms.
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
