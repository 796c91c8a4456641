"""Where candidates are tried: counts, journal, other failures, limits."""

from __future__ import annotations

import contextlib
import math
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from minifier.case import Case
from minifier.case.store import graph_to_text
from minifier.failure import Failure, Kind, Verdict, same
from minifier.probe.children import RunJobs, run_children
from minifier.probe.life import Job, Limits
from minifier.probe.prepared_case import PreparedCase
from minifier.probe.prober import LocalProber, Prober
from minifier.probe.verdicts import Judged, judge
from minifier.process.memory import cores, room
from minifier.reduction.journal import BESIDE_THE_SEARCH, JOURNAL, Entry, Journal, digest

_FIRST_TIMEOUT = 300.0
_LEAST_TIMEOUT = 2.0
_MISSED = 0.001  # how likely a probe may miss a flaky failure
_MISSED_DEARLY = 0.01  # the same where each repetition takes longer than _CHEAP
_CHEAP = 1.0  # seconds
_AT_ONCE = 4  # jobs beside the probes, at least
_ROOM_FOR_ONE = 2**31  # bytes of memory for each probe of those that are made at once
_WORTH_SPREADING = 0.5  # seconds of a probe
_DOUBT = 1.28  # standard deviations by which a rate may have been met too often: one estimate in ten


@dataclass
class Other:
    """A failure that was not sought, with the smallest Case that showed it."""

    failure: Failure
    case: Case
    sightings: int = 1


@dataclass
class ProbeRunner:
    """Tries Cases in child processes. `match` is a regular expression that replaces the comparison of
    messages, `match_log` one that is looked for in logs; `prober` makes the probes, children of this process unless
    another is given, and `run_jobs` runs all other jobs; `part` is the pass, within its phase, that probes are made
    for; `timeout` is for each probe, in seconds, None to calibrate it from the first failing run."""

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
    _passed: list[frozenset[int]] = field(default_factory=list)
    _beside: str = ""

    def __post_init__(self) -> None:
        case = self.bench.case
        self.sought = case.failure.fingerprint
        self.limits = Limits(self.timeout or _FIRST_TIMEOUT, self.memory)
        self.scratch = Path(tempfile.mkdtemp(prefix="minify-"))
        told = (graph_to_text(case.graph), self.match, self.match_log, repr(case.measure))
        self.journal = Journal(self.folder / JOURNAL, digest(repr(told)))
        self.adopt(self.bench.case)

    def adopt(self, case: Case) -> None:
        """Makes this the Case whose parts are tried from now on."""
        self.bench.case = case
        self.position = {node.name: i for i, node in enumerate(case.graph.ops)}

    @contextlib.contextmanager
    def beside(self, phase: str, case: Case) -> Iterator[Callable[[], None]]:
        """Within it another Case is the one whose parts are tried, a phase of its own to the journal; the function
        that is given has it stay."""
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

    def calibrate(self, seconds: float) -> None:
        """Sets the timeout from a run that ended: ten times as long, within 2 and 300 s. A timeout that the user
        gave stands, but where a hang is sought: there it is paid in every failing probe, and is an upper limit."""
        found = min(max(10 * seconds, _LEAST_TIMEOUT), _FIRST_TIMEOUT)
        if self.timeout is None or self.sought.kind is Kind.TIMEOUT:
            self.limits = replace(self.limits, seconds=min(found, self.timeout or found))

    def spread(self, seconds: float) -> None:
        """Has one probe a core made at once, if the number is free and one takes so many seconds that it pays. Probes
        that share a device other than the CPU, all memory, or a time limit that is met get in each other's way."""
        alone = self.limits.memory is not None or self.sought.kind in (Kind.TIMEOUT, Kind.OUT_OF_MEMORY)
        if self.may_spread and seconds > _WORTH_SPREADING and not alone and self.bench.case.devices <= {"cpu"}:
            self.workers = min(cores(), max(1, room() // _ROOM_FOR_ONE))

    def allow(self, seconds: float) -> None:
        """Sets the timeout as it is."""
        self.limits = replace(self.limits, seconds=seconds)

    def expect(self, shown: int, tries: int) -> None:
        """From now on a probe is repeated until the failure shows, or so often that a candidate which has it as often
        as the one that was tried would be missed once in a thousand times (in a hundred, where probes are slow)."""
        self.rate = shown / tries
        self.repeats = 1
        if shown < tries and self.last_seconds > _CHEAP:
            self.repeats = math.ceil(math.log(_MISSED_DEARLY) / math.log1p(-self.rate))
        elif shown < tries:
            self.repeats = math.ceil(math.log(_MISSED) / math.log1p(-surely(shown, tries)))

    def misses(self, rate: float) -> float:
        """How likely a probe, repeated as it is, misses a failure that shows at this rate."""
        return float((1.0 - rate) ** self.repeats)

    @property
    def total(self) -> int:
        """Probes made."""
        return sum(self.counts.values())

    def run(self, jobs: Sequence[Job]) -> list[dict[str, Any] | None]:
        """Runs jobs that are not probes (recording, looking at values); None for one that did not end well."""
        limits = Limits(max(self.timeout or 0.0, 60.0), self.memory)
        at_once = max(cores(), _AT_ONCE)
        parts = [jobs[i : i + at_once] for i in range(0, len(jobs), at_once)]
        ended = [each for part in parts for each in self.run_jobs(part, limits, self.scratch)]
        self.faults += [e.fault for e in ended if e.fault]
        return [e.result for e in ended]

    def probe(self, cases: Sequence[Case], keys: Sequence[str] | None = None) -> list[Judged]:
        """Tries each Case in a child of its own, all at once; again those that pass, where failures are flaky. By its
        key, if it is given one, an answer is known to a later run of the same reduction."""
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
        # A stage beyond the sought one is never run: what fails while compiling need not be run.
        if self.prober is None:
            self.prober = LocalProber(self.bench, self.scratch)
        ended = self.prober.probe(cases, self.sought.stage, self.limits)
        self.workers = self.prober.slots or self.workers
        if len(cases) > 1:  # what ran out of time or memory beside others may have enough of both alone
            for place, each in enumerate(ended):
                if each.exhausted or (each.timed_out and self.sought.kind is not Kind.TIMEOUT):
                    (ended[place],) = self.prober.probe([cases[place]], self.sought.stage, self.limits)
        return [
            judge(end, self.sought, case.graph.free_names, self.match, self.match_log, self.bench.case.failure)
            for case, end in zip(cases, ended, strict=True)
        ]

    def contradicts(self, case: Case) -> bool:
        """Whether a graph that contains this failing one has passed: they may need each other's absence, or the
        failure comes and goes."""
        positions = {self.position[node.name] for node in case.graph.ops}
        return any(positions <= passed for passed in self._passed)

    def as_sighted(self, case: Case) -> Case:
        """The Case with the words in which the sought failure showed on it last; its identity stays."""
        seen = self.sighted.get(ranges(self.position[node.name] for node in case.graph.ops))
        if seen is None or self.sought.kind is Kind.TIMEOUT:  # how long a probe waited says nothing
            return case
        failure = replace(
            case.failure,
            type=seen.type,
            message=seen.message,
            traceback=seen.traceback,
            differences=seen.differences,
        )
        return replace(case, failure=failure)

    def sight(self, case: Case, failure: Failure | None) -> None:
        """Has this be the last sighting of the failure on a graph of these ops."""
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
        # What a backend says to options taken away from it is no bug of its, nor what it says to a graph without ops.
        if judged.verdict is Verdict.OTHER and judged.failure is not None and self.phase != "simplify" and positions:
            self._keep_aside(case, judged.failure)
        if self.on_probe is not None:
            self.on_probe(self.phase, case, judged)

    def _keep_aside(self, case: Case, failure: Failure) -> None:
        for other in self.others:
            if same(other.failure.fingerprint, failure.fingerprint):
                other.sightings += 1
                if len(case.graph.ops) < len(other.case.graph.ops):
                    other.case, other.failure = replace(case, failure=failure), failure
                return
        self.others.append(Other(failure, replace(case, failure=failure)))


def surely(shown: int, tries: int) -> float:
    """The rate that a failure met in `shown` of `tries` has at least, but for one time in ten: the lower end of
    Wilson's interval (Wilson 1927, J. Am. Stat. Assoc. 22, 209)."""
    rate, spread = shown / tries, _DOUBT**2 / tries
    middle = rate + spread / 2
    return (middle - math.sqrt(rate * (1 - rate) * spread + spread**2 / 4)) / (1 + spread)


def ranges(numbers: Iterable[int]) -> str:
    """`0-3,7` for 0, 1, 2, 3, 7."""
    parts: list[list[int]] = []
    for number in sorted(numbers):
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)
