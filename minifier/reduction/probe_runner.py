"""Probes candidates of a reduction; keeps its counts, journal, other failures, limits and unanswered candidates."""

from __future__ import annotations

import contextlib
import json
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

from minifier.data.case import Case
from minifier.data.case.ops import with_ops
from minifier.data.case.run_folder import RunFolder
from minifier.data.case.serial import pack
from minifier.data.failure import Failure, Verdict, same
from minifier.data.settings import Settings
from minifier.errors import MinifyError
from minifier.process.machine import cores, machine_failure
from minifier.process.progress import Phase, Progress, counted
from minifier.reduction.journal import Entry, Journal, Keys, digest, digest_of_file
from minifier.reduction.probe.children import (
    MAX_TRIES,
    ChildEnd,
    Job,
    Limits,
    RunJobs,
    run_again_if_killed,
    run_children,
)
from minifier.reduction.probe.prepared_case import PreparedCase
from minifier.reduction.probe.verdicts import ForkingProber, Judged, MakeProber, Prober, judge, last_stage
from minifier.search import SearchPhase

MAX_TIMEOUT_SECONDS = 300.0
_MIN_FIRST_SECONDS = 60.0  # for the first probes, from which the timeout is calibrated
_FIRST_FACTOR = 3  # times the script's seconds, for the same
LAST_SECONDS = 10.0  # for a probe after the deadline


_Made = TypeVar("_Made")
_State = TypeVar("_State")


class Spent(Exception):
    """The budget is used up. The message is empty for the default budget, which no user has set."""


def first_seconds(case: Case) -> float:
    """Return the timeout of a probe that nothing has calibrated yet."""
    return min(max(_MIN_FIRST_SECONDS, _FIRST_FACTOR * case.script.seconds), MAX_TIMEOUT_SECONDS)


Atom = tuple[str, ...]

_PROOF = "prove"  # the search phase that deletes each remaining op alone

_AHEAD = "ahead"  # in the place of a pass, of candidates that nobody has asked for
_MIN_JOB_SECONDS = 60.0  # timeout of a job that is no probe
_MIN_PARALLEL_JOBS = 4
_PHASES = {phase.value for phase in SearchPhase}  # of the search over ops


@dataclass
class ProbeRunner:
    """Probes Cases in child processes.

    Without a `timeout` of the user's, the first failing run calibrates that of a probe. `show` gets the progress.
    `make_prober` makes what runs the probes, `run_jobs` runs all other jobs.
    `pass_name` is the pass, within the phase, that is running. `verdicts` are those of each pass, else of each phase.
    `rate` is the fraction of runs that show the failure; a probe is repeated up to `repeats` times. A candidate counts
    as failing only if as many further probes as `confirmations` fail too. `unrecorded` counts values that were too
    large to keep. `sighted` has the failure that each candidate last showed, by the candidate's key.
    `best` is the smallest Case that was seen to fail. `untold` counts, for each proof, the candidates that do not tell
    whether the failure is gone. `left_out` has the steps that an error of this tool ended, each with its traceback.
    """

    prepared: PreparedCase
    folder: Path
    settings: Settings = field(default_factory=Settings)
    workers: int = 1
    show: Callable[[Progress], object] = lambda _progress: None
    verdicts: dict[str, Counter[Verdict]] = field(default_factory=dict)
    others: list[Other[Case]] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    untold: dict[tuple[str, ...], Counter[Verdict]] = field(default_factory=dict)
    sighted: dict[str, Failure] = field(default_factory=dict)
    best: Case | None = None
    phase: str = "check"
    pass_name: str = ""
    rate: float = 1.0
    repeats: int = 1
    confirmations: int = 0
    doubtful: bool = False
    unrecorded: int = 0
    last_seconds: float = 0.0
    seconds: float = 0.0  # of all children so far, without waits for a processor
    make_prober: MakeProber = ForkingProber
    run_jobs: RunJobs = run_children
    build: Callable[[Case], Case] = lambda case: case
    keys: Keys = field(default_factory=Keys)
    _passed: list[frozenset[str]] = field(default_factory=list)
    _shown: list[tuple[frozenset[str], Case]] = field(default_factory=list)
    _beside: str = ""
    _prober: Prober | None = None

    def __post_init__(self) -> None:
        case = self.prepared.case
        self.sought = case.failure.fingerprint
        self.limits = Limits(self.settings.timeout or first_seconds(case), self.settings.memory)
        self.scratch = Path(tempfile.mkdtemp(prefix="minify-"))
        mode = [self.settings.match, self.settings.match_log, self.prepared.imports_in_child]
        tensors = digest_of_file(case.tensors) if case.tensors is not None else ""
        self.journal = Journal(RunFolder(self.folder).journal, digest(json.dumps([pack(case), tensors, *mode])))

    def seek(self, failure: Failure) -> None:
        """Compare later candidates with this failure."""
        self.sought = failure.fingerprint
        self.prepared.case = replace(self.prepared.case, failure=failure)

    def adopt(self, case: Case) -> None:
        """Make this the Case whose candidates are probed from now on."""
        self.prepared.case = case

    def key_of(self, case: Case) -> str:
        """Return the key of a candidate."""
        return self.keys.of(self.build(case))

    def known(self, case: Case) -> bool | None:
        """Return what an earlier run knows of a candidate: whether the failure showed, or None."""
        known = self.journal.known
        return known.answer(self.key_of(case), self.repeats) if known.verdicts else None

    @contextlib.contextmanager
    def beside(self, phase: str, case: Case) -> Iterator[None]:
        """Probe candidates of another Case within the block, as a phase of its own in the journal."""
        before, outer = self.prepared.case, self._beside
        self._beside = phase
        self.adopt(case)
        try:
            yield
        finally:
            self._beside = outer
            self.adopt(before)

    @contextlib.contextmanager
    def going_on(self, step: str) -> Iterator[None]:
        """Let an error of this tool end no more than the block, a step that the reduction can do without.

        An answer passes, and an error of the machine."""
        case = self.prepared.case
        try:
            yield
        except (MinifyError, Spent):
            raise
        except Exception as error:
            if machine_failure(error) is not None:
                raise
            self.adopt(case)
            self.left_out[step] = traceback.format_exc()

    def after(self, step: str, work: Callable[..., _Made], state: _State, *arguments: Any) -> _Made | _State:
        """Return what a step makes; `state` after an error of this tool. The reduction can do without the step."""
        with self.going_on(step):
            return work(*arguments)
        return state

    @contextlib.contextmanager
    def built_by(self, build: Callable[[Case], Case]) -> Iterator[None]:
        """Within the block, pass each candidate through `build`, and probe the result."""
        before, self.build = self.build, build
        try:
            yield
        finally:
            self.build = before

    def allow(self, seconds: float) -> None:
        """Set the timeout of a probe."""
        self.limits = replace(self.limits, seconds=seconds)

    @property
    def counts(self) -> Counter[Verdict]:
        """The number of probes so far, by verdict."""
        return sum(self.verdicts.values(), Counter[Verdict]())

    @property
    def total(self) -> int:
        """The number of probes so far."""
        return self.counts.total()

    def run(self, jobs: Sequence[Job]) -> list[dict[str, Any] | None]:
        """Run jobs that are no probes, like recording values; return None for a job that died."""
        limits = Limits(max(self.settings.timeout or 0.0, _MIN_JOB_SECONDS), self.settings.memory)
        size = max(cores(), _MIN_PARALLEL_JOBS)
        batches = [jobs[i : i + size] for i in range(0, len(jobs), size)]
        ended = [
            end for batch in batches for end in run_again_if_killed(batch, limits, self.scratch, run=self.run_jobs)
        ]
        self.faults += [e.fault for e in ended if e.fault]
        self.seconds += sum(e.seconds for e in ended)
        return [e.result for e in ended]

    def probe(self, cases: Sequence[Case], ahead: int = 0) -> list[Judged]:
        """Probe each Case in its own child, all at once; repeat probes that pass if the failure is flaky.

        The last ones, so many as `ahead`, are probed ahead of their turn: they are no candidates of the running pass.
        """
        entries = [Entry(self._beside or self.phase, self.key_of(case)) for case in cases]
        self.journal.begin(entries)
        try:
            judged = self._judged(cases)
            for _ in range(self.repeats - 1):
                passed = [i for i, each in enumerate(judged) if each.verdict is Verdict.PASS]
                if not passed:
                    break
                for i, again in zip(passed, self._judged([cases[i] for i in passed]), strict=True):
                    judged[i] = again
            for _ in range(self.confirmations):
                shown = [i for i, each in enumerate(judged) if each.verdict is Verdict.SAME]
                for i, again in zip(shown, self._judged([cases[i] for i in shown]) if shown else (), strict=True):
                    judged[i] = again if again.verdict is not Verdict.UNRESOLVED else judged[i]
        except BaseException:
            self.journal.forget(entries)
            raise
        for place, (case, each, entry) in enumerate(zip(cases, judged, entries, strict=True)):
            self._note(case, each, entry, self.pass_name if place < len(cases) - ahead else _AHEAD)
        return judged

    def count_ahead(self, verdict: Verdict) -> None:
        """Count a candidate that was probed ahead of its turn for the pass that asks for it now."""
        self.verdicts[_AHEAD][verdict] -= 1
        self.verdicts.setdefault(self.pass_name or self.phase, Counter())[verdict] += 1

    def _judged(self, cases: Sequence[Case]) -> list[Judged]:
        prober = self._prober = self._prober or self.make_prober(self.prepared, self.scratch)
        built, until = [self.build(case) for case in cases], last_stage(self.prepared.case.failure)
        ended = prober.probe(built, until, self._limits_now)
        judged = []
        for case, candidate, first_end in zip(cases, built, ended, strict=True):
            tries, end = 1, first_end
            while self._may_answer_alone(end, self._judge(case, end), tries, len(cases)):
                tries, (end,) = tries + 1, prober.probe([candidate], until, self._limits_now)
            judged.append(self._judge(case, end))
        return judged

    @property
    def _limits_now(self) -> Limits:
        """The limits of a probe that begins now: it ends soon after the run's deadline."""
        return replace(self.limits, seconds=min(self.limits.seconds, max(self.settings.seconds_left, LAST_SECONDS)))

    def _judge(self, case: Case, end: ChildEnd) -> Judged:
        match, match_log = self.settings.match, self.settings.match_log
        return judge(end, self.sought, case.graph.free_names, match, match_log, self.prepared.case.failure)

    def _may_answer_alone(self, end: ChildEnd, judged: Judged, tries: int, at_once: int) -> bool:
        """Return whether to probe a candidate again alone that gave no answer in so many tries.

        Alone it may have time and memory enough. Whoever killed a probe may do so again: from then on, fewer probes run
        at once.
        """
        if judged.verdict is not Verdict.UNRESOLVED:
            return False
        if end.was_killed:
            self.workers = max(1, self.workers // 2)
            return tries < MAX_TRIES
        return (end.exhausted or end.timed_out) and tries == 1 and at_once > 1

    def contradicts(self, case: Case) -> bool:
        """Return whether a graph that contains this failing graph has passed.
        Then the failure is flaky, or another op prevents the failure."""
        names = _names(case)
        return any(names <= passed for passed in self._passed)

    def larger(self, case: Case) -> list[Case]:
        """Return the graphs of the search over ops that have all ops of this one and more, and failed; largest first.

        The first is the whole graph.
        """
        names = _names(case)
        larger = {len(has): each for has, each in self._shown if names < has}
        return [larger[size] for size in sorted(larger, reverse=True)]

    def leave_open(self, place: Sequence[str], candidates: Counter[Verdict]) -> None:
        """Note how many candidates in the proof for the graph at this place gave no answer, or fail in eager too."""
        where = (self._beside, *place)
        self.untold[where] = candidates

    def _keep_best(self, case: Case) -> None:
        best = self.best
        if best is None or (len(case.graph.ops), case.elements) <= (len(best.graph.ops), best.elements):
            self.best = case if case.graph.ops else best

    def _note(self, case: Case, judged: Judged, entry: Entry, pass_name: str) -> None:
        self.verdicts.setdefault(pass_name or self.phase, Counter())[judged.verdict] += 1
        self.last_seconds = judged.seconds
        self.seconds += judged.seconds
        names = _names(case)
        if judged.verdict is Verdict.PASS and not self._beside and self.phase in _PHASES:
            self._passed.append(names)
        if judged.verdict is Verdict.SAME and not self._beside and self.phase in {"check", *_PHASES}:
            self._shown.append((names, case))
        if judged.verdict is Verdict.SAME and judged.failure is not None:
            self.sighted[entry.key] = judged.failure
            self._keep_best(self.build(case))
        more: dict[str, Any] = {"pass": pass_name} if pass_name else {}
        more |= {"tries": self.repeats} if self.repeats > 1 else {}
        self.journal.end(entry, judged.verdict, judged.seconds, len(case.graph.ops), elements=case.elements, **more)
        if judged.fault:
            self.faults.append(judged.fault)
        # A backend that rejects changed options, or a graph without ops, has no bug.
        is_other = judged.verdict is Verdict.OTHER and self.phase != "simplify"
        if is_other and judged.failure is not None and case.graph.ops:
            keep_aside(self.others, replace(self.build(case), failure=judged.failure), judged.failure)
        self._show(case, judged)

    def _show(self, case: Case, judged: Judged) -> None:
        ops = self.journal.known.failing_ops | ({len(self.best.graph.ops)} if self.best is not None else set())
        size = min(ops, default=None)  # of an interrupted run too, which this one goes on with
        to_prove = len(self.best.graph.ops) if self.phase == _PROOF and self.best is not None else 0
        step = f"{self.phase} {self.pass_name}".strip()
        probe = f"{step}, {counted(len(case.graph.ops), 'op')}: {judged.verdict.value} in {judged.seconds:.2f} s"
        progress = Progress(Phase.REDUCING, step=step, size=size, probes=self.total, probe=probe)
        self.show(replace(progress, to_prove=to_prove, seconds_to_prove=to_prove * self.last_seconds))


def _names(case: Case) -> frozenset[str]:
    """Return the names of the Case's ops, and a name for each call of another graph ahead."""
    return frozenset((*(node.name for node in case.graph.ops), *(f"call {n}" for n in range(len(case.others)))))


_MORE_ASKS = 2  # of a candidate without an answer
_LONGER_TIMEOUT_FACTOR = 30  # for such a candidate that timed out; it is asked once
_FACTOR_OF_USERS = 10  # of a user's limit
_MAX_LONGER_TIMEOUT_SECONDS = 60.0
_UNTOLD = (Verdict.UNRESOLVED, Verdict.INVALID)
_EMPTY = ("", "the graph without ops")  # a place of `ProbeRunner.untold`


def asked_again(runner: ProbeRunner, candidate: Case, *, is_slow: bool) -> Judged:
    """Probe a candidate without an answer again, and return the last judgement.

    A slow candidate timed out before: it gets a longer timeout, which stays if the failure shows.
    """
    timeout = runner.limits.seconds
    factor = _LONGER_TIMEOUT_FACTOR if runner.settings.timeout is None else _FACTOR_OF_USERS
    longer = min(factor * timeout, max(timeout, _MAX_LONGER_TIMEOUT_SECONDS)) if is_slow else timeout
    runner.allow(longer)
    judged = Judged(Verdict.UNRESOLVED, 0.0)
    for _ in range(int(longer > timeout) if is_slow else _MORE_ASKS):
        (judged,) = runner.probe([candidate])
        if judged.verdict not in _UNTOLD:
            break
    if judged.verdict is not Verdict.SAME:
        runner.allow(timeout)
    return judged


@dataclass
class Unanswered:
    """The candidates of a search that gave no answer, or on which eager failed, perhaps by chance. `build` makes the
    Case of a candidate."""

    runner: ProbeRunner
    build: Callable[[frozenset[int]], Case]
    _slow: dict[frozenset[int], bool] = field(default_factory=dict)

    def note(self, candidates: Sequence[frozenset[int]], judged: Sequence[Judged]) -> None:
        """Note the candidates whose probes do not tell whether the failure is gone."""
        for chosen, each in zip(candidates, judged, strict=True):
            if each.verdict in _UNTOLD:
                self._slow[chosen] = each.ran_out_of_time

    def disproved(self, kept: frozenset[int], place: Sequence[str] = ()) -> frozenset[int] | None:
        """Ask again for the candidates that the proof of `kept` rests on; return one that fails, or None.

        Candidates that do not tell it again are left open, at the `place` of the graph.
        """
        untold: Counter[Verdict] = Counter()
        for chosen, is_slow in list(self._slow.items()):
            if not (chosen < kept and len(kept - chosen) == 1):
                continue
            verdict = asked_again(self.runner, self.build(chosen), is_slow=is_slow).verdict
            if verdict is Verdict.SAME:
                return chosen
            untold[verdict] += verdict in _UNTOLD
        self.runner.leave_open(place, +untold)
        return None


def note_empty_graph(runner: ProbeRunner, judged: Judged) -> None:
    """Note whether the graph without ops gave an answer."""
    runner.untold[_EMPTY] = Counter(filter(_UNTOLD.__contains__, [judged.verdict]))


def with_empty_graph(runner: ProbeRunner, case: Case) -> Case:
    """Return the Case, marked if any graph fails. With one op left, ask for the graph without ops again.

    Only then its answer matters: if it shows the failure, the failure does not need that op.
    """
    if not runner.untold.pop(_EMPTY, None) or len(case.graph.ops) > 1:
        return case
    judged = asked_again(runner, with_ops(case, ()), is_slow=False)
    note_empty_graph(runner, judged)
    return replace(case, any_graph=True) if judged.verdict is Verdict.SAME else case


_MIN_CANDIDATES = 3  # of a pass that is said to show other failures every time


Program = TypeVar("Program", Case, str)


@dataclass
class Other(Generic[Program]):
    """A failure that is not sought, with the smallest program that showed it: a Case, or the text of a script."""

    failure: Failure
    program: Program
    sightings: int = 1


def hidden_by_others(verdicts: Mapping[str, Counter[Verdict]]) -> tuple[str, ...]:
    """Return the passes whose candidates all showed other failures, which may hide the sought one."""
    some = [(name, counts) for name, counts in verdicts.items() if counts[Verdict.OTHER] >= _MIN_CANDIDATES]
    return tuple(name for name, counts in some if counts[Verdict.OTHER] == counts.total() and name != _AHEAD)


def keep_aside(others: list[Other[Program]], program: Program, failure: Failure) -> None:
    """Add the failure to `others`, or count another sighting and keep the smaller program."""
    for other in others:
        if same(other.failure.fingerprint, failure.fingerprint):
            other.sightings += 1
            if _size(program) < _size(other.program):
                other.program, other.failure = program, failure
            return
    others.append(Other(failure, program))


def _size(program: Case | str) -> int:
    return len(program) if isinstance(program, str) else len(program.graph.ops)
