"""Simplifies everything of a Case except its ops: all at once, then by halves, then row by row to a fixpoint."""

from __future__ import annotations

import itertools
import json
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from minifier.case import Case, Drawn, TensorInput
from minifier.failure import Failure, Verdict
from minifier.passes.data import Facts, data_rows
from minifier.passes.edits import Edit, Pass, Row
from minifier.passes.sizes import all_sizes, without_ones
from minifier.passes.table import DATA, SIMPLIFICATIONS
from minifier.probe.evaluate import look_at_inputs
from minifier.probe.without_backend import pack_sections, run_without_backend, runs, with_sections
from minifier.reduction.cuts import with_cut_values
from minifier.reduction.journal import digest
from minifier.reduction.probe_runner import ProbeRunner
from minifier.search import Budget

Alternatives = Sequence[Edit]
"""Edits of which the first that leaves a runnable program wins."""

_MIN_SECONDS = 60.0
_MAX_SEARCH_RATIO = 2.0  # seconds of the passes for each second of the search


class Spent(Exception):
    """The budget is used up. The message is empty for the default budget, which no user has set."""


@dataclass
class Simplifier:
    """Simplifies a Case; each step is seen to keep the failure, and the graph runnable without a backend.

    `case` is the simplest Case so far. `ended` has for each pass `fixpoint` (none of its rows applies any more),
    `unfinished` or `skipped`. `rejected` has (pass, row) pairs after which the failure vanished; `passing_variants`
    has (pass, Case) pairs of these that pass.

    Without a user's budget, the limit is twice the time of the search, and at least a minute. If compiling is slow,
    nobody wants to wait for the last literal. Several workers probe the next candidates ahead of time, with the same
    result.
    """

    runner: ProbeRunner
    whole: Case
    case: Case
    budget: Budget = field(default_factory=Budget)
    searched: float = 0.0
    wants: Callable[[str], bool] = lambda _: True
    clock: Callable[[], float] = time.monotonic
    ended: dict[str, str] = field(default_factory=dict)
    rejected: list[tuple[str, str]] = field(default_factory=list)
    stopped: str = ""
    passing_variants: list[tuple[str, Case]] = field(default_factory=list)
    _answers: dict[str, Failure | None] = field(default_factory=dict)  # the sought failure if it showed, by digest
    _passed: set[str] = field(default_factory=set)
    _unconfirmed: set[str] = field(default_factory=set)  # answers of an interrupted run alone
    _never_tried: set[str] = field(default_factory=set)  # the machine did not survive them
    _last_passing: Case | None = None
    _runs_eagerly: bool | None = None
    _was_judged: bool = False
    _own_deadline: float = math.inf

    def __post_init__(self) -> None:
        self.ended = {each.name: "unfinished" if self.wants(each.name) else "skipped" for each in self._all_passes}
        known = self.runner.journal.known
        self._answers = {key: self.case.failure if shown else None for key, shown in known.made.items()}
        self._unconfirmed = set(self._answers)
        self._passed = set(known.passed)
        self._never_tried = {entry.key for entry in known.skipped}

    def run(self) -> Case:
        """Run the passes and return the simplest Case."""
        self._own_deadline = self.clock() + max(_MIN_SECONDS, _MAX_SEARCH_RATIO * self.searched)
        searched = self.case
        try:
            self._ensure_runnable()
            self._run_passes()
            if not self._is_confirmed():  # the earlier answers were wrong: start again without them
                self.case = searched
                self._answers = {key: known for key, known in self._answers.items() if key not in self._unconfirmed}
                self._passed -= self._unconfirmed
                self._unconfirmed = set()
                self._run_passes()
            self.ended |= {each.name: "fixpoint" for each in self.passes}
        except Spent as spent:
            self.stopped = str(spent)
        return self.case

    def _run_passes(self) -> None:
        self._try_at_once()
        while True:
            before, self.rejected, self.passing_variants = self.case, [], []
            for each in self.passes:
                self._run_pass(each)
            if self.case == before:
                break

    def _is_confirmed(self) -> bool:
        """Probe the Case itself if only an interrupted run saw the failure; return whether the failure shows."""
        key = _key(self.case)
        if key not in self._unconfirmed:
            return True
        self.runner.part = ""
        self._unconfirmed.discard(key)
        del self._answers[key]
        return self._holds(self.case)

    @property
    def finished(self) -> bool:
        """Whether no row of a wanted pass applies any more."""
        return "unfinished" not in self.ended.values()

    def _ensure_runnable(self) -> None:
        """Use the whole graph's values at cuts if the Case does not run eagerly without them."""
        if self._is_runnable(self.case):
            self._runs_eagerly = True
            return
        case = with_cut_values(self.runner, self.whole, self.case)
        if case != self.case and self._is_runnable(case) and self._holds(case):
            self.case, self._runs_eagerly = case, True

    def without_data(self) -> Case:
        """Drop the user's own values if the failure does not need them, even if the reduction was stopped.
        The extra probe is worth the time: nobody wants to read, or to send, the script's values."""
        if not self.wants(DATA[0]):
            return self.case
        self.budget, self._own_deadline = Budget(), math.inf
        rows = data_rows(self.case, self._facts())
        self.take([edits for row in rows for edits in row.rungs[:1]])
        return self.case

    @property
    def passes(self) -> list[Pass]:
        """The wanted passes, in the order they run."""
        return [each for each in self._all_passes if self.wants(each.name)]

    @property
    def _all_passes(self) -> tuple[Pass, ...]:
        return Pass(*DATA, lambda case: data_rows(case, self._facts())), *SIMPLIFICATIONS

    def _try_at_once(self) -> None:
        """Try all passes at once, with sizes of 1, of 2, or of 2, 3, 4, ...; then by halves.
        Settings that the user made on purpose stay."""
        self.runner.part = "all at once"
        together = [each for each in self.passes if not each.asked and not each.alone and each.name != "sizes"]
        steps = [row.edits for each in together for row in each.rows(self.case)]
        sizes = list(all_sizes(self.case)) if self.wants("sizes") else []
        ones = [[without_ones]] if self.wants("dims") else []
        tries: list[Sequence[Alternatives]] = [[sizes[number:], *steps, *ones] for number in range(0, len(sizes), 2)]
        for number, each in enumerate(tries):
            if self.take(each, tries[number + 1 :]):
                return
        self._try_halves(steps)

    def _try_halves(self, steps: Sequence[Alternatives]) -> None:
        middle = len(steps) // 2
        if not steps or self.take(steps, [steps[:middle]] if middle else []) or not middle:
            return
        self._try_halves(steps[:middle])
        self._try_halves(steps[middle:])

    def _run_pass(self, family: Pass) -> None:
        self.runner.part = family.name
        rows = family.rows(self.case)
        if len(rows) > 1 and not family.alone and self.take([row.edits for row in rows], _one_by_one(rows)):
            rows = family.rows(self.case)
        for number, row in enumerate(rows):
            self._was_judged, self._last_passing = False, None
            if not self._take_row(row, rows[number + 1 :]) and self._was_judged:
                self.rejected.append((family.name, row.name))
                if self._last_passing is not None:
                    self.passing_variants.append((family.name, self._last_passing))

    def _take_row(self, row: Row, later: Sequence[Row]) -> bool:
        """Make the row's first edit that leaves a program with the failure."""
        for number, rung in enumerate(row.rungs):
            edits = self._distinct(rung)
            for place, edit in enumerate(edits):
                rest = replace(row, rungs=(tuple(edits[place + 1 :]), *row.rungs[number + 1 :]))
                if self.take([[edit]], _one_by_one([rest, *later])):
                    return True
        return False

    def _distinct(self, edits: Alternatives) -> list[Edit]:
        """Return the edits that change the Case, each in another way."""
        results, distinct = [self.case], []
        for edit in edits:
            changed = edit(self.case)
            if changed not in results:
                results.append(changed)
                distinct.append(edit)
        return distinct

    def take(self, steps: Sequence[Alternatives], later: Iterable[Sequence[Alternatives]] = ()) -> bool:
        """Make the steps if the failure stays; `later` has the tries that follow otherwise."""
        (candidate,) = self._runnable([steps])
        if candidate is None or candidate == self.case:
            return False
        if not self._holds(candidate, later):
            if _key(candidate) in self._passed:  # the last edit of a row changes least
                self._last_passing = candidate
            return False
        self.case = candidate
        self.runner.sight(candidate, self._answers[_key(candidate)])
        return True

    def shows(self, edits: Alternatives) -> bool | None:
        """Return whether the failure stays after any of these edits; None if no edit leaves a program."""
        candidates = self._runnable([[[edit]] for edit in self._distinct(edits)])
        programs = [each for each in candidates if each is not None and each != self.case]
        return any(map(self._holds, programs)) if programs else None

    def _runnable(self, tries: Sequence[Sequence[Alternatives]]) -> list[Case | None]:
        """Return for each try the Case after its steps that leave a runnable program; None if there is none."""
        changed = [self._changed(steps) for steps in tries]
        if all(each == self.case for each in changed):
            return [None] * len(tries)
        self._check_budget()
        if self._runs_eagerly is None:
            self._runs_eagerly = self._is_runnable(self.whole)
        if not self._runs_eagerly:  # not even the captured graph runs without a backend
            return [None if each == self.case else each for each in changed]
        effective = [steps for steps, each in zip(tries, changed, strict=True) if each != self.case]
        bench, case = self.runner.bench, self.case
        jobs = [lambda steps=steps: run_without_backend(bench, case, steps) for steps in effective]
        results = iter(self.runner.run(jobs))
        answers = [None if each == self.case else next(results) for each in changed]
        packed = [None if answer is None else answer["case"] for answer in answers]
        return [None if sections is None else with_sections(self.case, sections) for sections in packed]

    def _changed(self, steps: Sequence[Alternatives]) -> Case:
        case = self.case
        for edits in steps:
            case = next((changed for edit in edits if (changed := edit(case)) != case), case)
        return case

    def _check_budget(self) -> None:
        now, deadline = self.clock(), self.budget.deadline
        if deadline is not None and now >= deadline:
            raise Spent("the time budget was used up")
        if deadline is None and now >= self._own_deadline:
            raise Spent

    def _is_runnable(self, case: Case) -> bool:
        (result,) = self.runner.run([lambda: runs(self.runner.bench, case)])
        return result is not None and result["case"] is not None

    def _holds(self, case: Case, later: Iterable[Sequence[Alternatives]] = ()) -> bool:
        key = _key(case)
        if key not in self._answers:
            remaining = self.budget.after(self.runner.total).max_probes
            if remaining == 0:
                raise Spent("the probe budget was used up")
            self._check_budget()
            idle = self.runner.workers - 1 if remaining is None else min(self.runner.workers, remaining) - 1
            cases = {key: case, **self._next_candidates(later, idle)}
            for each, judged in zip(cases, self.runner.probe(list(cases.values()), list(cases)), strict=True):
                self._answers[each] = judged.failure if judged.verdict is Verdict.SAME else None
                if judged.verdict is Verdict.PASS:
                    self._passed.add(each)
        self._was_judged = key not in self._never_tried
        return self._answers[key] is not None

    def _next_candidates(self, later: Iterable[Sequence[Alternatives]], count: int) -> dict[str, Case]:
        """Return up to `count` candidates without an answer, by digest."""
        if count < 1:
            return {}
        candidates = self._runnable(list(itertools.islice(later, count)))
        by_key = {_key(each): each for each in candidates if each is not None and each != self.case}
        return {key: each for key, each in by_key.items() if key not in self._answers}

    def _facts(self) -> dict[str, Facts]:
        """Return bounds and small values of inputs with the script's own values; {} if the child failed."""
        names = {i.name for i in self.case.inputs if isinstance(i, TensorInput) and not isinstance(i.source, Drawn)}
        if not names:
            return {}
        (result,) = self.runner.run([lambda: look_at_inputs(self.runner.bench, self.case.inputs)])
        facts: dict[str, Any] = result["facts"] if result is not None else {}
        return {
            name: Facts(low, high, None if values is None else tuple(values))
            for name, (low, high, values) in facts.items()
            if name in names
        }


def _key(case: Case) -> str:
    return digest(json.dumps(pack_sections(case)))


def _one_by_one(rows: Iterable[Row]) -> Iterator[Sequence[Alternatives]]:
    return ([[edit]] for row in rows for edit in row.edits)
