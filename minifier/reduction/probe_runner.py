"""Probes candidates of a reduction; keeps its counts, journal, other failures and limits."""

from __future__ import annotations

import contextlib
import math
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from minifier.case import Case
from minifier.case.store import graph_to_text
from minifier.failure import Failure, Kind, Verdict
from minifier.probe.children import RunJobs, run_children
from minifier.probe.life import Job, Limits
from minifier.probe.prepared_case import PreparedCase
from minifier.probe.prober import LocalProber, Prober
from minifier.probe.verdicts import Judged, judge
from minifier.process.memory import cores, room
from minifier.reduction.journal import BESIDE_THE_SEARCH, JOURNAL, Entry, Journal, digest, ranges
from minifier.reduction.other_failures import Other, keep_aside

_MAX_TIMEOUT_SECONDS = 300.0
_MIN_TIMEOUT_SECONDS = 2.0
_TIMEOUT_FACTOR = 10  # times the seconds of a run that ended
_MIN_JOB_SECONDS = 60.0  # timeout of a job that is no probe
_MISS_CHANCE = 0.001  # that a probe with its repetitions misses a flaky failure
_MISS_CHANCE_IF_SLOW = 0.01  # if one repetition takes longer than _CHEAP_PROBE_SECONDS
_CHEAP_PROBE_SECONDS = 1.0
_MIN_PARALLEL_JOBS = 4
_PROBE_MEMORY_BYTES = 2**31  # free memory for each parallel probe
_MIN_PARALLEL_PROBE_SECONDS = 0.5  # shorter probes gain nothing from running in parallel
_Z_ONE_SIDED_90 = 1.28


@dataclass
class ProbeRunner:
    """Probes Cases in child processes.

    `match` is a regular expression that replaces the comparison of messages; `match_log` is for log lines.
    `timeout` is in seconds for each probe; None means calibration by the first failing run. `memory` is in bytes.
    `prober` runs the probes (default: children of this process), `run_jobs` all other jobs.
    `part` is the pass, within the phase, that is running. `rate` is the fraction of runs that show the failure;
    a probe is repeated up to `repeats` times. `sighted` has the last sighting, by positions of ops.
    """

    bench: PreparedCase
    folder: Path
    match: str | None = None
    match_log: str | None = None
    timeout: float | None = None
    memory: int | None = None
    workers: int = 1
    on_probe: Callable[[str, Case, Judged], None] | None = None
    counts: Counter[Verdict] = field(default_factory=Counter)
    others: list[Other] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    unanswered: dict[tuple[str, ...], int] = field(default_factory=dict)
    sighted: dict[str, Failure] = field(default_factory=dict)
    phase: str = "check"
    part: str = ""
    rate: float = 1.0
    repeats: int = 1
    doubtful: bool = False
    may_spread: bool = False
    last_seconds: float = 0.0
    prober: Prober | None = None
    run_jobs: RunJobs = run_children
    build: Callable[[Case], Case] = lambda case: case
    _passed: list[frozenset[int]] = field(default_factory=list)
    _beside: str = ""

    def __post_init__(self) -> None:
        case = self.bench.case
        self.sought = case.failure.fingerprint
        self.limits = Limits(self.timeout or _MAX_TIMEOUT_SECONDS, self.memory)
        self.scratch = Path(tempfile.mkdtemp(prefix="minify-"))
        terms = (graph_to_text(case.graph), self.match, self.match_log, repr(case.measure), *case.ahead)
        terms = (*terms, "any message") if self.sought.any_message else terms
        self.journal = Journal(self.folder / JOURNAL, digest(repr(terms)))
        self.adopt(case)

    def seek(self, failure: Failure) -> None:
        """Compare later candidates with this failure."""
        self.sought = failure.fingerprint
        self.bench.case = replace(self.bench.case, failure=failure)

    def with_forms(self, case: Case) -> Case:
        """Return the Case with all forms of its failure that are known by now."""
        fingerprint = replace(case.failure.fingerprint, forms=self.sought.forms)
        return replace(case, failure=replace(case.failure, fingerprint=fingerprint))

    def adopt(self, case: Case) -> None:
        """Make this the Case whose candidates are probed from now on."""
        self.bench.case = case
        self.position = {node.name: i for i, node in enumerate(case.graph.ops)}

    @contextlib.contextmanager
    def beside(self, phase: str, case: Case) -> Iterator[Callable[[], None]]:
        """Probe candidates of another Case for a while, as a phase of its own in the journal.
        Calling the yielded function makes the runner stay with that Case."""
        before = self.bench.case, self.position, self.sighted, self._passed, self._beside
        stays = False

        def keep() -> None:
            nonlocal stays
            stays = True

        self.sighted, self._passed, self._beside = {}, [], phase
        self.adopt(case)
        try:
            yield keep
        finally:
            self._beside = before[-1]
            if not stays:
                self.bench.case, self.position, self.sighted, self._passed, _ = before

    @contextlib.contextmanager
    def built_by(self, build: Callable[[Case], Case]) -> Iterator[None]:
        """Within the block, pass each candidate through `build`, and probe the result."""
        before, self.build = self.build, build
        try:
            yield
        finally:
            self.build = before

    def calibrate(self, seconds: float) -> None:
        """Set the timeout from a run that ended: ten times as long, within 2 and 300 s. The user's timeout stands,
        but is only an upper limit for a hang, because every failing probe waits that long."""
        calibrated = min(max(_TIMEOUT_FACTOR * seconds, _MIN_TIMEOUT_SECONDS), _MAX_TIMEOUT_SECONDS)
        if self.timeout is None or self.sought.kind is Kind.TIMEOUT:
            self.limits = replace(self.limits, seconds=min(calibrated, self.timeout or calibrated))

    def spread(self, seconds: float) -> None:
        """Probe in parallel, up to a probe for each core, if the user set no number and probes take long enough.
        Parallel probes disturb each other if they share a device other than the CPU, use up the memory, or run into the
        timeout."""
        alone = self.limits.memory is not None or self.sought.kind in (Kind.TIMEOUT, Kind.OUT_OF_MEMORY)
        is_slow = seconds > _MIN_PARALLEL_PROBE_SECONDS
        if self.may_spread and is_slow and not alone and self.bench.case.devices <= {"cpu"}:
            self.workers = min(cores(), max(1, room() // _PROBE_MEMORY_BYTES))

    def allow(self, seconds: float) -> None:
        """Set the timeout of a probe."""
        self.limits = replace(self.limits, seconds=seconds)

    def expect(self, shown: int, tries: int) -> None:
        """Set the failure rate, and how often later probes are repeated until the failure shows.
        A candidate with this rate is then missed once in a thousand probes (in a hundred if probes are slow)."""
        self.rate = shown / tries
        self.repeats = 1
        if shown < tries and self.last_seconds > _CHEAP_PROBE_SECONDS:
            self.repeats = math.ceil(math.log(_MISS_CHANCE_IF_SLOW) / math.log1p(-self.rate))
        elif shown < tries:
            self.repeats = math.ceil(math.log(_MISS_CHANCE) / math.log1p(-surely(shown, tries)))

    def misses(self, rate: float) -> float:
        """Return the chance that a probe, with its repetitions, misses a failure of this rate."""
        return float((1.0 - rate) ** self.repeats)

    @property
    def total(self) -> int:
        """The number of probes so far."""
        return sum(self.counts.values())

    def run(self, jobs: Sequence[Job]) -> list[dict[str, Any] | None]:
        """Run jobs that are no probes, like recording values; return None for a job that died."""
        limits = Limits(max(self.timeout or 0.0, _MIN_JOB_SECONDS), self.memory)
        size = max(cores(), _MIN_PARALLEL_JOBS)
        batches = [jobs[i : i + size] for i in range(0, len(jobs), size)]
        ended = [end for batch in batches for end in self.run_jobs(batch, limits, self.scratch)]
        self.faults += [e.fault for e in ended if e.fault]
        return [e.result for e in ended]

    def probe(self, cases: Sequence[Case], keys: Sequence[str] | None = None) -> list[Judged]:
        """Probe each Case in its own child, all at once; repeat probes that pass if the failure is flaky.
        A resumed reduction finds answers by their `keys`, if these are given."""
        entries = [self._entry(case, key) for case, key in zip(cases, keys or [""] * len(cases), strict=True)]
        self.journal.begin(entries)
        try:
            judged = self._repeated(cases)
        except BaseException:
            self.journal.forget(entries)
            raise
        for case, each, entry in zip(cases, judged, entries, strict=True):
            self._note(case, each, entry)
        return judged

    def _repeated(self, cases: Sequence[Case]) -> list[Judged]:
        judged = self._once(cases)
        for _ in range(self.repeats - 1):
            passed = [i for i, each in enumerate(judged) if each.verdict is Verdict.PASS]
            if not passed:
                break
            for i, again in zip(passed, self._once([cases[i] for i in passed]), strict=True):
                judged[i] = again
        return judged

    def _entry(self, case: Case, key: str) -> Entry:
        return Entry(self._beside or self.phase, ranges(self.position[node.name] for node in case.graph.ops), key)

    def _once(self, cases: Sequence[Case]) -> list[Judged]:
        if self.prober is None:
            self.prober = LocalProber(self.bench, self.scratch)
        built = [self.build(case) for case in cases]
        ended = self.prober.probe(built, self.sought.stage, self.limits)  # no stage after the sought one is run
        self.workers = self.prober.slots or self.workers
        if len(cases) > 1:  # a probe that ran out of time or memory may have enough of both alone
            for place, each in enumerate(ended):
                if each.exhausted or (each.timed_out and self.sought.kind is not Kind.TIMEOUT):
                    (ended[place],) = self.prober.probe([built[place]], self.sought.stage, self.limits)
        return [
            judge(end, self.sought, case.graph.free_names, self.match, self.match_log, self.bench.case.failure)
            for case, end in zip(cases, ended, strict=True)
        ]

    def contradicts(self, case: Case) -> bool:
        """Return whether a graph that contains this failing graph has passed.
        Then the failure is flaky, or another op prevents the failure."""
        positions = {self.position[node.name] for node in case.graph.ops}
        return any(positions <= passed for passed in self._passed)

    def as_sighted(self, case: Case) -> Case:
        """Return the Case with the message and traceback of its last sighting. The fingerprint stays, with the forms
        that were found meanwhile, and with the aspects that this Case shows."""
        case = self.with_forms(case)
        seen = self.sighted.get(ranges(self.position[node.name] for node in case.graph.ops))
        if seen is None or self.sought.kind is Kind.TIMEOUT:  # the message is only the length of the timeout
            return case
        if case.failure.differences and not seen.differences:  # the death of a process where eager raises
            seen = replace(seen, message=case.failure.message, differences=case.failure.differences)
        failure = replace(
            case.failure,
            fingerprint=replace(case.failure.fingerprint, aspects=seen.fingerprint.aspects),
            type=seen.type,
            message=seen.message,
            traceback=seen.traceback,
            written=seen.written,
            differences=seen.differences,
        )
        return replace(case, failure=failure)

    def leave_open(self, place: Sequence[str], candidates: int) -> None:
        """Note how many candidates in the proof for the graph at this place gave no answer."""
        where = (self._beside, *place)
        self.unanswered[where] = candidates

    def sight(self, case: Case, failure: Failure | None) -> None:
        """Note the last sighting of the failure on these ops."""
        if failure is not None:
            self.sighted[ranges(self.position[node.name] for node in case.graph.ops)] = failure

    def _note(self, case: Case, judged: Judged, entry: Entry) -> None:
        self.counts[judged.verdict] += 1
        self.last_seconds = judged.seconds
        positions = frozenset(self.position[node.name] for node in case.graph.ops)
        if judged.verdict is Verdict.PASS and self.phase not in BESIDE_THE_SEARCH:
            self._passed.append(positions)
        if judged.verdict is Verdict.SAME and judged.failure is not None:
            self.sighted[entry.ops] = judged.failure
        more: dict[str, Any] = {"pass": self.part} if self.part else {}
        more |= {"tries": self.repeats} if self.repeats > 1 else {}
        self.journal.end(entry, judged.verdict, judged.seconds, elements=case.elements, **more)
        if judged.fault:
            self.faults.append(judged.fault)
        # A backend that rejects changed options, or a graph without ops, has no bug.
        if judged.verdict is Verdict.OTHER and judged.failure is not None and self.phase != "simplify" and positions:
            keep_aside(self.others, self.build(case), judged.failure)
        if self.on_probe is not None:
            self.on_probe(self.phase, case, judged)


def surely(shown: int, tries: int) -> float:
    """Return a lower bound of a failure's rate that holds nine times in ten.
    The bound is the lower end of Wilson's interval (Wilson 1927, J. Am. Stat. Assoc. 22, 209)."""
    rate, spread = shown / tries, _Z_ONE_SIDED_90**2 / tries
    middle = rate + spread / 2
    return (middle - math.sqrt(rate * (1 - rate) * spread + spread**2 / 4)) / (1 + spread)
