"""Walks a search from question to question: looks up known answers, probes the other questions, counts probes."""

from __future__ import annotations

from collections.abc import Callable

from minifier.search.masks import Mask, atoms_of, size
from minifier.search.place import Place, foresee
from minifier.search.problem import Budget, Ending, KnownAnswers, Oracle
from minifier.search.result import PhaseCount, Result, SearchPhase, SearchProgress
from minifier.search.steps import Ask, Step


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
