"""Walks a search, the tree of its questions: looks up known answers, probes others, foresees the next."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count
from typing import TypeAlias

from .atoms import Mask, atoms_of, size, within
from .problem import (
    Budget,
    Ending,
    KnownAnswers,
    Oracle,
    PhaseCount,
    Result,
    SearchPhase,
    SearchProgress,
)


@dataclass(frozen=True, slots=True)
class Done:
    """The end of a search: `kept` fails, and every phase, including the proof, is complete."""

    kept: Mask


@dataclass(frozen=True, slots=True)
class Ask:
    """A question: does `candidate` fail? A failing candidate becomes the best so far.

    `chance` is the likelihood of "yes", and steers only speculation. `answered` may be called with both answers, and
    more than once: side effects are forbidden. If `inferable`, "no" may be inferred without a probe from a larger
    candidate that passes (domination).
    """

    phase: SearchPhase
    candidate: Mask
    chance: float
    answered: Callable[[bool], Step]
    inferable: bool = False


Step: TypeAlias = Ask | Done

Reduced: TypeAlias = Callable[[Mask], Step]
"""The next phase, called with a failing set, smaller than before or the same."""


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


class Walk:
    """A search, from its first question to its end; for a single use."""

    def __init__(
        self,
        prober: Oracle,
        known: KnownAnswers,
        budget: Budget,
        on_progress: Callable[[SearchProgress], None] | None,
    ) -> None:
        self._prober = prober
        self._budget = budget
        self._on_progress = on_progress
        self._known = known
        self._answers: dict[Mask, bool] = {}
        self._probes = dict.fromkeys(SearchPhase, 0)
        self._sizes: dict[SearchPhase, tuple[int, int]] = {}
        self._rounds = 0

    def run(self, everything: Mask, first: Step) -> Result:
        """Answer questions until the search is done, the budget is spent, or a KeyboardInterrupt arrives."""
        self._answers[everything] = True
        best = everything
        place = Place(first)
        ended = Ending.PROVED
        try:
            while isinstance(ask := place.step, Ask):
                fails = place.answer(ask, self._answers)
                if fails is None and self._recalls(ask):
                    continue
                if fails is None:
                    if (spent := self._budget.ending(self._total)) is not None:
                        ended = spent
                        break
                    if self._on_progress is not None:
                        self._on_progress(SearchProgress(ask.phase, size(best), self._total, self._rounds))
                    fails = self._probe(place)
                before = self._sizes.get(ask.phase, (size(best), 0))[0]
                best = ask.candidate if fails else best
                self._sizes[ask.phase] = (before, size(best))
                place = place.after(ask, fails)
        except KeyboardInterrupt:
            ended = Ending.INTERRUPTED
        if ended is not Ending.PROVED:
            best = self._smallest_failing()
        return Result(atoms_of(best), ended, self._total, self._rounds, self._counts())

    @property
    def _total(self) -> int:
        return sum(self._probes.values())

    def _probe(self, place: Place) -> bool:
        """Probe the question at `place`, and likely next ones on idle workers."""
        wanted = max(1, self._prober.workers)
        if self._budget.max_probes is not None:
            wanted = min(wanted, self._budget.max_probes - self._total)
        asks = foresee(place, self._answers, wanted)
        while any([self._recalls(ask) for ask in asks]):
            asks = foresee(place, self._answers, wanted)
        answers = self._prober.probe([atoms_of(ask.candidate) for ask in asks])
        for ask, fails in zip(asks, answers, strict=True):
            self._answers[ask.candidate] = bool(fails)
            self._probes[ask.phase] += 1
        self._rounds += 1
        return self._answers[asks[0].candidate]

    def _recalls(self, ask: Ask) -> bool:
        """Take over the answer of an earlier run; return whether there was one that was not taken over before."""
        fails = self._known.get(atoms_of(ask.candidate)) if ask.candidate not in self._answers else None
        if fails is not None:
            self._answers[ask.candidate] = fails
        return fails is not None

    def _smallest_failing(self) -> Mask:
        """Return the smallest failing candidate of all answers so far, including speculation."""
        failing = (candidate for candidate, fails in self._answers.items() if fails)
        return min(failing, key=lambda candidate: (size(candidate), candidate))

    def _counts(self) -> tuple[PhaseCount, ...]:
        return tuple(PhaseCount(phase, self._probes[phase], *sizes) for phase, sizes in self._sizes.items())
