"""After the ops: all else that a repro says, made plain. First everything at once, then by halves, then row by row
until no row of any pass applies."""

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
from minifier.reduction.cuts import with_real_values
from minifier.reduction.journal import digest
from minifier.reduction.op_search import Limit
from minifier.reduction.probe_runner import ProbeRunner

Step = Sequence[Edit]
"""Edits of which the first is taken that leaves a program."""


_LEAST_PATIENCE = 60.0  # seconds
_TIMES_THE_SEARCH = 2.0


class Spent(Exception):
    """The budget is used up; without a reason, what this is worth is."""


@dataclass
class Simplifier:
    """Makes a Case plainer, each step seen to keep the failure, and the graph to run without a backend. `case` is the
    plainest so far; `ended` says of each pass `fixpoint` (none of its rows applies any more), `unfinished` or
    `skipped`. Without a budget of the user's it takes at most twice the seconds that the search took, or a minute:
    where compiling is slow, and many ops are left, nobody wants to wait for the last literal. `refused` has (pass, row)
    of those that would leave a program without the failure, `neighbours` what some of these leave, and passes,
    with the name of the pass.

    Where the lab has several workers, what would be asked next if the failure went is asked beside each question: the
    answers are those that one worker would get, in the same order, and so is the Case.
    """

    lab: ProbeRunner
    whole: Case
    case: Case
    limit: Limit = field(default_factory=Limit)
    searched: float = 0.0
    wants: Callable[[str], bool] = lambda _: True
    clock: Callable[[], float] = time.monotonic
    ended: dict[str, str] = field(default_factory=dict)
    refused: list[tuple[str, str]] = field(default_factory=list)
    stopped: str = ""
    neighbours: list[tuple[str, Case]] = field(default_factory=list)
    _answers: dict[str, Failure | None] = field(default_factory=dict)  # what showed, if it is what is sought
    _passed: set[str] = field(default_factory=set)
    _of_earlier: set[str] = field(default_factory=set)  # of these answers, what an interrupted run has seen
    _never_tried: set[str] = field(default_factory=set)  # as the machine did not survive it
    _passing: Case | None = None
    _settles: bool | None = None
    _was_judged: bool = False
    _until: float = math.inf

    def __post_init__(self) -> None:
        self.ended = {each.name: "unfinished" if self.wants(each.name) else "skipped" for each in self._all}
        known = self.lab.journal.known
        self._answers = {key: self.case.failure if shown else None for key, shown in known.made.items()}
        self._of_earlier = set(self._answers)
        self._passed = set(known.passed)
        self._never_tried = {entry.key for entry in known.skipped}

    def run(self) -> Case:
        """The plainest Case found."""
        self._until = self.clock() + max(_LEAST_PATIENCE, _TIMES_THE_SEARCH * self.searched)
        searched = self.case
        try:
            self._begin()
            self._make_plain()
            if not self._is_seen():  # what an earlier run saw is not to be relied on: once more without
                self.case = searched
                self._answers = {key: known for key, known in self._answers.items() if key not in self._of_earlier}
                self._passed -= self._of_earlier
                self._of_earlier = set()
                self._make_plain()
            self.ended |= {each.name: "fixpoint" for each in self.passes}
        except Spent as spent:
            self.stopped = str(spent)
        return self.case

    def _make_plain(self) -> None:
        self._at_once()
        while True:
            before, self.refused, self.neighbours = self.case, [], []
            for each in self.passes:
                self._family(each)
            if self.case == before:
                break

    def _is_seen(self) -> bool:
        """Tries the Case itself, if what it shows was seen by an earlier run alone: whether it does."""
        key = _key(self.case)
        if key not in self._of_earlier:
            return True
        self.lab.part = ""
        self._of_earlier.discard(key)
        del self._answers[key]
        return self._holds(self.case)

    @property
    def finished(self) -> bool:
        """Whether no row of a pass that is wanted applies any more."""
        return "unfinished" not in self.ended.values()

    def _begin(self) -> None:
        """Values at cuts as the whole graph computes them, where it is no program without."""
        if self._settle_one(self.case):
            self._settles = True
            return
        real = with_real_values(self.lab, self.whole, self.case)
        if real != self.case and self._settle_one(real) and self._holds(real):
            self.case, self._settles = real, True

    def without_data(self) -> Case:
        """The Case without the user's own values if the failure does not need them; all there is time for
        when the reduction was stopped."""
        if not self.wants(DATA[0]):
            return self.case
        # One probe more: nobody wants to read, or to send, the script's values.
        self.limit, self._until = Limit(), math.inf
        rows = data_rows(self.case, self._facts())
        self.take([edits for row in rows for edits in row.rungs[:1]])
        return self.case

    @property
    def passes(self) -> list[Pass]:
        """Those that are tried, in their order."""
        return [each for each in self._all if self.wants(each.name)]

    @property
    def _all(self) -> tuple[Pass, ...]:
        return Pass(*DATA, lambda case: data_rows(case, self._facts())), *SIMPLIFICATIONS

    def _at_once(self) -> None:
        """Everything that nobody asked for, with sizes of one, or of two and three; then by halves."""
        self.lab.part = "all at once"
        together = [each for each in self.passes if not each.asked and not each.alone and each.name != "sizes"]
        steps = [row.edits for each in together for row in each.rows(self.case)]
        sizes = list(all_sizes(self.case)) if self.wants("sizes") else []
        ones = [[without_ones]] if self.wants("dims") else []
        tries: list[Sequence[Step]] = [[sizes[number:], *steps, *ones] for number in range(0, len(sizes), 2)]
        for number, each in enumerate(tries):
            if self.take(each, tries[number + 1 :]):
                return
        self._halves(steps)

    def _halves(self, steps: Sequence[Step]) -> None:
        middle = len(steps) // 2
        if not steps or self.take(steps, [steps[:middle]] if middle else []) or not middle:
            return
        self._halves(steps[:middle])
        self._halves(steps[middle:])

    def _family(self, family: Pass) -> None:
        self.lab.part = family.name
        rows = family.rows(self.case)
        if len(rows) > 1 and not family.alone and self.take([row.edits for row in rows], _one_by_one(rows)):
            rows = family.rows(self.case)
        for number, row in enumerate(rows):
            self._was_judged, self._passing = False, None
            if not self._take_row(row, rows[number + 1 :]) and self._was_judged:
                self.refused.append((family.name, row.name))
                if self._passing is not None:
                    self.neighbours.append((family.name, self._passing))

    def _take_row(self, row: Row, rest: Sequence[Row]) -> bool:
        """Makes the first of the row's edits that leaves a program with the failure."""
        for number, rung in enumerate(row.rungs):
            edits = self._distinct(rung)
            for place, edit in enumerate(edits):
                less = replace(row, rungs=(tuple(edits[place + 1 :]), *row.rungs[number + 1 :]))
                if self.take([[edit]], _one_by_one([less, *rest])):
                    return True
        return False

    def _distinct(self, rung: Step) -> list[Edit]:
        """The edits that make different things of the Case."""
        made: list[Case] = [self.case]
        found = []
        for edit in rung:
            changed = edit(self.case)
            if changed not in made:
                made.append(changed)
                found.append(edit)
        return found

    def take(self, steps: Sequence[Step], later: Iterable[Sequence[Step]] = ()) -> bool:
        """Makes the steps, if the failure stays; `later` are those that would be tried next if it does not."""
        (candidate,) = self._settled([steps])
        if candidate is None or candidate == self.case:
            return False
        if not self._holds(candidate, later):
            if _key(candidate) in self._passed:  # the last of a row's is what is nearest to how it was
                self._passing = candidate
            return False
        self.case = candidate
        self.lab.sight(candidate, self._answers[_key(candidate)])
        return True

    def shows(self, rung: Step) -> bool | None:
        """Whether the failure stays after one of these edits; None if none leaves a program."""
        candidates = self._settled([[[edit]] for edit in self._distinct(rung)])
        programs = [each for each in candidates if each is not None and each != self.case]
        return any(map(self._holds, programs)) if programs else None

    def _settled(self, tries: Sequence[Sequence[Step]]) -> list[Case | None]:
        """For each try, the Case after those of its steps that leave it a program; None if no step can be made."""
        changed = [self._changed(steps) for steps in tries]
        if all(each == self.case for each in changed):
            return [None] * len(tries)
        self._check_budget()
        if self._settles is None:
            self._settles = self._settle_one(self.whole)
        if not self._settles:  # the user's own graph is no program without a backend
            return [None if each == self.case else each for each in changed]
        asked = [steps for steps, each in zip(tries, changed, strict=True) if each != self.case]
        bench, case = self.lab.bench, self.case
        answers = iter(self.lab.run([lambda steps=steps: run_without_backend(bench, case, steps) for steps in asked]))  # type: ignore[misc]
        found = [None if each == self.case else next(answers) for each in changed]
        parts = [None if each is None else each["case"] for each in found]
        return [None if each is None else with_sections(self.case, each) for each in parts]

    def _changed(self, steps: Sequence[Step]) -> Case:
        changed = self.case
        for edits in steps:
            changed = next((made for edit in edits if (made := edit(changed)) != changed), changed)
        return changed

    def _check_budget(self) -> None:
        now, deadline = self.clock(), self.limit.deadline
        if deadline is not None and now >= deadline:
            raise Spent("the time budget was used up")
        if deadline is None and now >= self._until:
            raise Spent

    def _settle_one(self, case: Case) -> bool:
        (found,) = self.lab.run([lambda: runs(self.lab.bench, case)])
        return found is not None and found["case"] is not None

    def _holds(self, case: Case, later: Iterable[Sequence[Step]] = ()) -> bool:
        key = _key(case)
        if key not in self._answers:
            left = self.limit.after(self.lab.total).max_probes
            if left == 0:
                raise Spent("the probe budget was used up")
            self._check_budget()
            spare = self.lab.workers - 1 if left is None else min(self.lab.workers, left) - 1
            asked = {key: case, **self._next(later, spare)}
            for each, judged in zip(asked, self.lab.probe(list(asked.values()), list(asked)), strict=True):
                self._answers[each] = judged.failure if judged.verdict is Verdict.SAME else None
                if judged.verdict is Verdict.PASS:
                    self._passed.add(each)
        self._was_judged = key not in self._never_tried
        return self._answers[key] is not None

    def _next(self, later: Iterable[Sequence[Step]], count: int) -> dict[str, Case]:
        """Up to so many of the candidates that would be asked about next."""
        if count < 1:
            return {}
        made = self._settled(list(itertools.islice(later, count)))
        found = {_key(each): each for each in made if each is not None and each != self.case}
        return {key: each for key, each in found.items() if key not in self._answers}

    def _facts(self) -> dict[str, Facts]:
        """Bounds and small values of inputs that are not drawn, looked at in a child; nothing where that failed."""
        real = {i.name for i in self.case.inputs if isinstance(i, TensorInput) and not isinstance(i.source, Drawn)}
        if not real:
            return {}
        (result,) = self.lab.run([lambda: look_at_inputs(self.lab.bench, self.case.inputs)])
        found: dict[str, Any] = result["facts"] if result is not None else {}
        return {
            name: Facts(low, high, None if values is None else tuple(values))
            for name, (low, high, values) in found.items()
            if name in real
        }


def _key(case: Case) -> str:
    return digest(json.dumps(pack_sections(case)))


def _one_by_one(rows: Iterable[Row]) -> Iterator[Sequence[Step]]:
    """What is tried if nothing of the rows can be made."""
    return ([[edit]] for row in rows for edit in row.edits)
