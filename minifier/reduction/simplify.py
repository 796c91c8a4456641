"""Simplifies everything of a Case except its ops: all at once, then by halves, then row by row to a fixpoint."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from minifier.data.case import Case, Drawn, Recorded, Stored
from minifier.data.case.store import unpickled
from minifier.data.case.symbolic_sizes import goes_through_dynamo
from minifier.data.case.values import is_float
from minifier.data.failure import Kind, Stage, Verdict
from minifier.reduction.flakiness import certain_again, last_shown, misjudged
from minifier.reduction.passes.edits import Edit, Pass, Row
from minifier.reduction.passes.inputs import Facts, data_rows
from minifier.reduction.passes.sizes import all_sizes, without_ones
from minifier.reduction.passes.table import DATA, SIMPLIFICATIONS
from minifier.reduction.probe.evaluate import look_at_inputs, run_eagerly, run_without_backend, runs
from minifier.reduction.probe.verdicts import Judged
from minifier.reduction.probe_runner import ProbeRunner, Spent, asked_again
from minifier.search import Budget

Alternatives = Sequence[Edit]
"""Edits of which the first that leaves a runnable program wins."""

_MIN_SECONDS = 30.0
_MOST_AHEAD = 32  # tries that are looked at for what is probed ahead of its turn
_MAX_SEARCH_RATIO = 1.0  # seconds of the passes for each second of the search
_MIN_NEEDS_SECONDS = 8.0
_MAX_NEEDS_RATIO = 0.2  # seconds of the measurement of needs for each second before


@dataclass
class Simplifier:
    """Simplifies a Case; each step is seen to keep the failure, and the graph runnable without a backend.

    `case` is the simplest Case so far. `accepted` has the Cases on the way to it, from the Case that showed the failure
    as surely as the whole graph: where the simplest one has become flaky, the last certain one is simplified in another
    way. `ended` has for each pass `fixpoint` (none of its rows applies any more), `unanswered` (but for rows that gave
    no answer), `unfinished` or `skipped` (not wanted, or ended by an error of its own). `rejected` has (pass, row)
    pairs after which the failure vanished; `passing_variants` has (pass, Case) pairs of these that pass. `open` has the
    pass and the Case of each candidate that gave no answer, by digest. `expected` has candidates to be asked for.

    Without a user's budget, its probes may take the time of the search's, as far as the `seconds` of the whole
    reduction go, and at least half a minute. If compiling is slow, nobody wants to wait for the last literal. Several
    workers probe the next candidates ahead of time, with the same result.
    """

    runner: ProbeRunner
    whole: Case
    case: Case
    budget: Budget = field(default_factory=Budget)
    wants: Callable[[str], bool] = lambda _: True
    seconds: float = math.inf
    accepted: list[Case] = field(default_factory=list)
    ended: dict[str, str] = field(default_factory=dict)
    rejected: list[tuple[str, str]] = field(default_factory=list)
    expected: Iterable[Case] = ()
    stopped: str = ""
    passing_variants: list[tuple[str, Case]] = field(default_factory=list)
    open: dict[str, tuple[str, Case]] = field(default_factory=dict)
    _asked_again: set[str] = field(default_factory=set)
    _judged: dict[str, Case] = field(default_factory=dict)  # candidates of the row, by digest
    _answers: dict[str, Judged] = field(default_factory=dict)  # of all candidates so far, by digest
    _runs_eagerly: bool | None = None
    _ahead: dict[str, Judged] = field(default_factory=dict)  # answers that nobody has asked for yet, by digest
    _ran: dict[str, Case | None] = field(default_factory=dict)  # programs that single edits of `_ran_of` leave
    _ran_of: Case | None = None
    _following: Sequence[Pass] = ()  # the passes that follow the running one
    _max_spent: float = math.inf

    def __post_init__(self) -> None:
        self.accepted = self.accepted or [self.case]
        self.ended = {each.name: "unfinished" if self.wants(each.name) else "skipped" for each in self._all_passes}
        known = self.runner.journal.known
        self._answers = {key: Judged(verdict, 0.0) for key, verdict in known.verdicts.items()}
        self._never_tried = {entry.key for entry in known.skipped}
        self._unconfirmed = set(self._answers) - self._never_tried

    def run(self) -> Case:
        """Run the passes and return the simplest Case."""
        spent = self.runner.seconds
        self._max_spent = spent + max(_MIN_SECONDS, min(_MAX_SEARCH_RATIO * spent, self.seconds - spent))
        searched, before = self.case, tuple(self.accepted)
        try:
            self._ensure_runnable()
            self._run_passes()
            if not self._is_confirmed():  # the earlier answers were wrong: start again without them
                self.case, self.accepted = searched, [*before]
                self._forget(self._unconfirmed)
                self._run_passes()
            self.ended = dict.fromkeys(self.ended, "skipped") | {each.name: "fixpoint" for each in self.passes}
            self.ended |= dict.fromkeys((name for name, _ in self.open.values()), "unanswered")
        except Spent as spent:
            self.stopped = str(spent)
        return self.case

    def _run_passes(self) -> None:
        with self.runner.going_on("all at once"):
            self._try_at_once()
        while True:
            before, self.open = self.case, {}
            self.rejected, self.passing_variants = [], []
            passes = self.passes
            try:
                for number, each in enumerate(passes):
                    self._following = passes[number + 1 :]
                    with self.runner.going_on(each.name):
                        self._run_pass(each)
            finally:
                self._following = ()
            if self.case == before and not self._answer_now():
                break

    def _answer_now(self) -> bool:
        """Ask again, once, for the candidates of the last round without an answer; return whether any answers."""
        answers = False
        for key, (name, candidate) in self.open.items():
            if key not in self._asked_again:
                self._asked_again.add(key)
                self._check_budget()
                self.runner.pass_name = name
                judged = asked_again(self.runner, candidate, is_slow=self._answers[key].ran_out_of_time)
                self._answers[key] = judged
                answers |= judged.verdict is not Verdict.UNRESOLVED
        return answers

    def _is_confirmed(self) -> bool:
        """Probe the Case itself if only an interrupted run saw the failure; return whether the failure shows."""
        key = self.runner.key_of(self.case)
        if key not in self._unconfirmed:
            return True
        self.runner.pass_name = ""
        self._forget([key])
        return self.holds(self.case)

    def has_become_flaky(self) -> bool:
        """Probe the simplest Case again; return whether its failure comes and goes, so that the passes must run again.

        A certain Case is then the simplest one, and no answer of a single probe that saw the failure counts any
        more. If there is none, the failure is flaky itself: its rate is set, and all answers are asked for again.
        """
        runner = self.runner
        runner.pass_name = ""
        is_hang = runner.sought.kind is Kind.TIMEOUT
        if is_hang or runner.repeats > 1 or runner.confirmations or not self.accepted or self.case == self.accepted[0]:
            return False
        if self.stopped or self.budget.ending(runner.total) or not misjudged(runner, self.case, again=True):
            return False
        certain = certain_again(runner, self.case, self.accepted[:-1])
        self.case = certain or self.accepted[0]
        self.accepted = [self.case]
        shown = [key for key, judged in self._answers.items() if judged.verdict is Verdict.SAME]
        self._forget(shown if certain is not None else set(self._answers) - self._never_tried)
        return True

    def has_left_dynamo(self) -> bool:
        """Probe the simplest Case through torch.compile; return whether only an earlier one shows the failure there.

        A repro of a wrong result calls torch.compile, a probe the backend on the graph, which takes half the time.
        Dynamo may hand over another graph, where a simplification has made two values the same, say. The last Case
        that shows the failure through Dynamo is then the simplest one, and the passes must run again.
        """
        case, runner = self.case, self.runner
        if runner.sought.stage is not Stage.COMPARE or goes_through_dynamo(case) or case.graph.attributes:
            return False
        if case == self.accepted[0] or self.stopped or self.budget.ending(runner.total):
            return False
        compiled = [replace(each, through_dynamo=True) for each in self.accepted]
        last = last_shown(compiled, lambda each: runner.probe([each])[0].verdict in (Verdict.SAME, Verdict.UNRESOLVED))
        if last in (-1, len(compiled) - 1):
            return False
        self.case = compiled[last]
        self.accepted = [self.case]
        return True

    def known(self, case: Case) -> bool | None:
        """Return whether the failure showed; None for a candidate that was not probed, or did not answer."""
        judged = self._answers.get(self.runner.key_of(case))
        if judged is None or judged.verdict in (Verdict.UNRESOLVED, Verdict.INVALID):
            return None
        return judged.verdict is Verdict.SAME

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
        if case != self.case and self._is_runnable(case) and self.holds(case):
            self._accept(case)
            self._runs_eagerly = True

    def without_data(self) -> Case:
        """Drop the user's own values if the failure does not need them, even if the reduction was stopped.
        The extra probe is worth the time: nobody wants to read, or to send, the script's values."""
        if not self.wants(DATA[0]):
            return self.case
        self.budget, self._max_spent = Budget(), math.inf
        rows = data_rows(self.case, facts_of(self.runner, self.case))
        self.take([edits for row in rows for edits in row.rungs[:1]])
        return self.case

    @property
    def passes(self) -> list[Pass]:
        """The wanted passes, in the order they run, but for those that an error of their own has ended."""
        return [each for each in self._all_passes if self.wants(each.name) and each.name not in self.runner.left_out]

    @property
    def _all_passes(self) -> tuple[Pass, ...]:
        return Pass(*DATA, lambda case: data_rows(case, facts_of(self.runner, self.case))), *SIMPLIFICATIONS

    def _try_at_once(self) -> None:
        """Try all passes at once, with sizes of 1, of 2, or of 2, 3, 4, ...; then by halves.
        Settings that the user made on purpose stay."""
        self.runner.pass_name = "all at once"
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
        self.runner.pass_name = family.name
        rows = family.rows(self.case)
        if len(rows) > 1 and not family.alone and self.take([row.edits for row in rows], _one_by_one(rows)):
            rows = family.rows(self.case)
        for number, row in enumerate(rows):
            self._judged = {}
            if not self._take_row(row, rows[number + 1 :]):
                self._note_rejected(family.name, row.name)

    def _note_rejected(self, name: str, row: str) -> None:
        """Note that the failure vanished after each edit of this row, unless a candidate gave no answer."""
        verdicts = {key: self._answers[key].verdict for key in self._judged}
        unanswered = {key: (name, case) for key, case in self._judged.items() if verdicts[key] is Verdict.UNRESOLVED}
        self.open |= unanswered
        if unanswered or not verdicts or next(reversed(verdicts)) in self._never_tried:
            return
        self.rejected.append((name, row))
        passed = [(name, case) for key, case in self._judged.items() if verdicts[key] is Verdict.PASS]
        self.passing_variants += passed[-1:]  # the last edit of a row changes least

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
        if not self.holds(candidate, later):
            return False
        self._accept(candidate)
        return True

    def _accept(self, case: Case) -> None:
        self.case = case
        self.accepted.append(case)

    def begin_needs(self) -> None:
        """Set the time limit of the measurement of needs, which the whole reduction's limit bounds."""
        spent = self.runner.seconds
        self._max_spent = spent + min(max(_MIN_NEEDS_SECONDS, _MAX_NEEDS_RATIO * spent), self.seconds - spent)
        self.runner.phase, self.runner.pass_name = "simplify", "needs"

    def row(self, family: str, name: str) -> Row | None:
        """Return the row of this pass and name that applies to the Case."""
        rows = next((each.rows(self.case) for each in self.passes if each.name == family), ())
        return next((row for row in rows if row.name == name), None)

    def programs(self, edits: Alternatives) -> list[Case]:
        """Return the programs that these edits leave, each edit made alone."""
        candidates = self._runnable([[[edit]] for edit in self._distinct(edits)])
        return [each for each in candidates if each is not None and each != self.case]

    def passed(self, case: Case) -> bool:
        """Return whether a probed candidate passed: no other failure showed either."""
        judged = self._answers.get(self.runner.key_of(case))
        return judged is not None and judged.verdict is Verdict.PASS

    def shows(self, edits: Alternatives) -> bool:
        """Return whether the failure stays after any of these edits."""
        return any(self.shown(self.programs(edits)))

    def shown(self, cases: Sequence[Case]) -> Iterator[bool]:
        """Yield for each candidate whether the failure shows; idle workers probe those that follow."""
        for number, case in enumerate(cases, 1):
            yield self.holds(case, following=cases[number:])

    def _runnable(self, tries: Sequence[Sequence[Alternatives]]) -> list[Case | None]:
        """Return for each try the Case after its steps that leave a runnable program; None if there is none.

        Of a single edit the answer is kept until the Case is another one: tries are looked at ahead of their turn.
        """
        changed = [self._changed(steps) for steps in tries]
        if all(each == self.case for each in changed):
            return [None] * len(tries)
        self._check_budget()
        if self._runs_eagerly is None:
            self._runs_eagerly = self._is_runnable(self.whole)
        if not self._runs_eagerly:  # not even the captured graph runs without a backend
            return [None if each == self.case else each for each in changed]
        if self._ran_of is not self.case:
            self._ran_of, self._ran = self.case, {}
        prepared, case = self.runner.prepared, self.case
        keys = [
            self.runner.key_of(each) if _is_single(steps) else "" for each, steps in zip(changed, tries, strict=True)
        ]
        asked = [place for place, each in enumerate(changed) if each != case and keys[place] not in self._ran]
        jobs = [lambda steps=tries[place]: run_without_backend(prepared, case, steps) for place in asked]
        programs = [self._ran.get(key) for key in keys]
        for place, result in zip(asked, self.runner.run(jobs), strict=True):
            if result is not None and result["case"] is not None:
                programs[place] = unpickled(result["case"], case)
            if result is not None and keys[place]:  # a job that died runs again at its turn
                self._ran[keys[place]] = programs[place]
        return programs

    def _changed(self, steps: Sequence[Alternatives]) -> Case:
        case = self.case
        for edits in steps:
            case = next((changed for edit in edits if (changed := edit(case)) != case), case)
        return case

    def _check_budget(self) -> None:
        deadline = self.budget.deadline
        if deadline is not None and self.budget.now() >= deadline:
            raise Spent("the time budget was used up")
        if deadline is None and self.runner.seconds >= self._max_spent:
            raise Spent

    def _is_runnable(self, case: Case) -> bool:
        (result,) = self.runner.run([lambda: runs(self.runner.prepared, case)])
        return result is not None and result["case"] is not None

    def holds(self, case: Case, later: Iterable[Sequence[Alternatives]] = (), following: Sequence[Case] = ()) -> bool:
        """Probe a candidate, unless it has answered; return whether the failure shows.

        Idle workers probe the candidates that follow, the next ones of the tries in `later`, or the expected ones.
        """
        key = self.runner.key_of(case)
        if key not in self._answers:
            remaining = self.budget.after(self.runner.total).max_probes
            if remaining == 0:
                raise Spent("the probe budget was used up")
            self._check_budget()
            workers = self.runner.workers if remaining is None else min(self.runner.workers, remaining)
            others = itertools.chain(following, self._candidates(later, workers - 1), self.expected)
            cases = self._with_others(case, others, workers)
            judged = self.runner.probe(list(cases.values()), ahead=len(cases) - 1)
            self._answers.update(zip(cases, judged, strict=True))
            self._ahead |= dict(zip([*cases][1:], judged[1:], strict=True))
            self._max_spent += sum(each.seconds for each in judged[1:])
        if (ahead := self._ahead.pop(key, None)) is not None:  # it is asked for now
            self._max_spent -= ahead.seconds
            self.runner.count_ahead(ahead.verdict)
        self._judged[key] = case
        return self._answers[key].verdict is Verdict.SAME

    def _forget(self, keys: Iterable[str]) -> None:
        """Forget answers, which are then asked for."""
        for key in list(keys):
            self._answers.pop(key, None)
            self._unconfirmed.discard(key)

    def _candidates(self, later: Iterable[Sequence[Alternatives]], count: int) -> Iterator[Case]:
        """Yield candidates of these tries, then of the rows of the passes that follow, made so many at once."""
        tries = self._effective(later)
        while some := list(itertools.islice(tries, count)):
            yield from (each for each in self._runnable(some) if each is not None and each != self.case)

    def _effective(self, later: Iterable[Sequence[Alternatives]]) -> Iterator[Sequence[Alternatives]]:
        """Yield the tries that change the Case, then such tries of the passes that follow.

        An error in the rows of a pass ends that pass alone."""
        places = iter(range(_MOST_AHEAD))
        yield from (steps for _, steps in zip(places, later, strict=False) if self._changed(steps) != self.case)
        for each in self._following:
            with self.runner.going_on(each.name):
                tries = zip(places, _one_by_one(each.rows(self.case)), strict=False)
                yield from (steps for _, steps in tries if self._changed(steps) != self.case)

    def _with_others(self, case: Case, candidates: Iterable[Case], count: int) -> dict[str, Case]:
        """Return the Case with the first of the candidates that have no answer, up to `count` in all, by digest.

        No more of the candidates are read."""
        found = {self.runner.key_of(case): case}
        for each in candidates if count > 1 else ():
            if (key := self.runner.key_of(each)) not in self._answers:
                found[key] = each
            if len(found) == count:
                break
        return found


def _is_single(steps: Sequence[Alternatives]) -> bool:
    return [len(edits) for edits in steps] == [1]


def _one_by_one(rows: Iterable[Row]) -> Iterator[Sequence[Alternatives]]:
    return ([[edit]] for row in rows for edit in row.edits)


def with_cut_values(runner: ProbeRunner, whole: Case, case: Case) -> Case:
    """Give cut inputs the values that the whole graph computes, unless they are floats.
    Only compile-time failures need this: their search uses shapes alone."""
    tensors = [i for i in case.tensor_inputs if not isinstance(i.source, (Stored, Recorded))]
    unknown = [i for i in tensors if not is_float(i.meta.dtype)]
    if not unknown or not whole.ignores_values:
        return case
    folder = runner.scratch / "cut"
    folder.mkdir(exist_ok=True)
    arguments = whole.graph, whole.inputs, whole.state, [item.name for item in unknown], folder
    (result,) = runner.run([lambda: run_eagerly(runner.prepared, *arguments)])
    if result is None or result["status"] != "pass":
        return case
    runner.prepared.record(folder)
    inputs = tuple(replace(i, source=Recorded(i.name)) if i in unknown else i for i in case.inputs)
    return replace(case, inputs=inputs)


def facts_of(runner: ProbeRunner, case: Case) -> dict[str, Facts]:
    """Return bounds and small values of inputs with the script's own values; {} if the child failed."""
    names = {i.name for i in case.tensor_inputs if not isinstance(i.source, Drawn)}
    if not names:
        return {}
    (result,) = runner.run([lambda: look_at_inputs(runner.prepared, case.inputs)])
    facts: dict[str, Any] = result["facts"] if result is not None else {}
    return {
        name: Facts(low, high, None if values is None else tuple(values))
        for name, (low, high, values) in facts.items()
        if name in names
    }
