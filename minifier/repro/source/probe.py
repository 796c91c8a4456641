"""Probe source texts: run each as a script in a child process."""

from __future__ import annotations

import json
import re
import signal
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from minifier.capturing.slicing.module_statements import missing_names
from minifier.data.case.literals import SCRIPT
from minifier.data.failure import Fingerprint, Frame, Verdict
from minifier.data.failure.normalise import headline
from minifier.process.progress import Phase, Progress, counted
from minifier.reduction.probe.children import COMPILED, ChildEnd, Limits, run_again_if_killed, run_children
from minifier.reduction.probe.prepared_case import look_at_machine, preload
from minifier.reduction.probe.verdicts import Judged, judge
from minifier.reduction.probe_runner import Other, keep_aside
from minifier.repro.source.conditions import DRAWN, BackendWatch, Condition, SourceRun
from minifier.repro.source.passes import MODULES
from minifier.repro.source.run_source import run_after_control, run_source
from minifier.torch_side.fx.script_objects import FILE
from minifier.torch_side.torch_private.dynamo import warm_up_dynamo
from minifier.torch_side.torch_private.inductor import link_libraries
from minifier.torch_side.torch_private.modes import built_devices


def write_others(others: list[Other[str]], folder: Path) -> None:
    """Write the scripts as 1.py, 2.py, ..., each with its failure in the last comment; the most frequent one first."""
    for number, other in enumerate(sorted(others, key=lambda other: -other.sightings), 1):
        folder.mkdir(parents=True, exist_ok=True)
        text = f"{other.program.rstrip()}\n\n# {other.failure.line}\n"
        (folder / f"{number}.py").write_text(text, encoding="utf-8", errors="backslashreplace")


_FIRST_TIMEOUT_SECONDS = 3600.0  # before any run time is known: the whole script ended when it was captured
_MIN_TIMEOUT_SECONDS = 5.0
TIMEOUT_FACTOR = 10  # of the slowest failing run
_RUNS_OF_DRAWS = 5  # of a source whose failure may depend on random numbers
_OTHER_GENERATORS = re.compile(r"\b(?:default_rng|RandomState|Random|SystemRandom|secrets|urandom|uuid\d)\b")


def passed(end: ChildEnd) -> bool:
    """Return whether a run of a source ended without an exception, and before its time limit."""
    return end.result is not None and end.result["status"] == "pass"


def _another(judged: Judged) -> Judged:
    """Return the verdict on a run that shows the fingerprint, but not the failure of the script."""
    return replace(judged, verdict=Verdict.OTHER, failure=None)


def _drawn_anew(end: ChildEnd) -> dict[str, str] | None:
    """Return the states of the generators that drew numbers, but for torch's, which each probe seeds; None after a
    death."""
    told: dict[str, str] | None = end.told.get(DRAWN)
    return told and {name: state for name, state in told.items() if name != "torch"}


@dataclass
class SourceLab:
    """Probes each source text once, in a child process. The file `journal` gets a line for each probe.

    `missing` are the names that the whole script reads and does not bind. With `passes_in_eager` a text has to pass in
    eager mode. All `conditions` have to be met. The script, whose `__file__` is `file`, has modules in `folders`.
    `first_seconds` is how long the whole script may take, as far as known. With `without_backends`, each graph runs in
    eager mode in the place of a backend call: a failure of Dynamo needs no compiler. `accepted` gets each text that
    holds.
    `moved` has (function of the script, function that its statements are in by now). `others` are other failures.
    `warnings` are sentences about this tool's errors in the search, `errors` the traceback of each.
    """

    scratch: Path
    journal: Path
    sought: Fingerprint
    match: str | None = None
    memory: int | None = None
    timeout: float | None = None
    workers: int = 1
    folders: tuple[str, ...] = ()
    file: str = FILE
    missing: frozenset[str] = frozenset()
    passes_in_eager: bool = True
    conditions: list[Condition] = field(default_factory=list)
    without_backends: bool = False
    phase: str = "check"
    moved: Sequence[tuple[str, str]] = ()
    show: Callable[[Progress], None] = lambda _: None
    accepted: Callable[[str], None] = lambda _: None
    others: list[Other[str]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    counts: dict[Verdict, int] = field(default_factory=lambda: dict.fromkeys(Verdict, 0))
    _verdicts: dict[str, Verdict] = field(default_factory=dict)  # by source text
    first_seconds: float = _FIRST_TIMEOUT_SECONDS
    slowest_seconds: float = 0.0  # of the runs that showed the failure
    _fewest_lines: int | None = None

    def __post_init__(self) -> None:
        link_libraries(self.scratch / COMPILED, checks_only=True)

    @property
    def total(self) -> int:
        """The number of probes."""
        return sum(self.counts.values())

    @property
    def frozen(self) -> frozenset[str]:
        """The texts of statements that no edit changes."""
        return frozenset().union(*(condition.frozen for condition in self.conditions))

    def _limits(self) -> Limits:
        expected = TIMEOUT_FACTOR * self.slowest_seconds if self.slowest_seconds else self.first_seconds
        return Limits(self.timeout or max(_MIN_TIMEOUT_SECONDS, expected), self.memory)

    def run(self, source: str, *, compiled: bool = True) -> ChildEnd:
        """Run the source in a child without counting a probe; make ready here what the child needed of torch."""
        (end,) = run_children([self._job(source, compiled=compiled)], self._limits(), self.scratch)
        if preload(end.loaded):
            look_at_machine(source, is_on_host=not built_devices())
            if not built_devices():  # Dynamo asks for the state of their generators
                warm_up_dynamo()
        return end

    def holds(self, sources: Sequence[str]) -> list[bool]:
        """Return for each text whether the sought failure shows, all conditions are met, and eager mode passes.

        A probe runs a text in eager mode, if that has to pass, and then compiled.
        New texts are probed in parallel. Texts that are not Python are not probed, nor texts that cannot meet a
        condition or read an unbound name which is not in `missing`: they cannot pass in eager mode.
        """
        texts = dict.fromkeys(text for text in sources if text not in self._verdicts)
        self._verdicts |= {text: Verdict.INVALID for text in texts if not self._can_pass(text)}
        new = [text for text in texts if text not in self._verdicts]
        runs = self._run_all(new, has_control=self.passes_in_eager)
        for run, judged in zip(runs, [self._judged(run) for run in runs], strict=True):
            is_other = judged.verdict is Verdict.SAME and not self._fails_for_all_draws(run)
            self._record(run, _another(judged) if is_other else judged)
        return [self._verdicts[source] is Verdict.SAME for source in sources]

    def leave_out_backends(self, source: str) -> None:
        """Answer each backend call with the graph itself from now on, if the source shows the failure then."""
        self.without_backends = True
        (run,) = self._run_all([source])
        self.without_backends = self._judged(run).verdict is Verdict.SAME

    def holds_with_backends(self, source: str) -> bool:
        """Call the backends themselves from now on, without the verdicts so far; return whether the source holds."""
        self.without_backends = False
        self._verdicts.clear()
        return self.holds([source])[0]

    def fails_in_aot_eager(self, source: str) -> bool:
        """Return whether the source shows the failure with torch's `aot_eager` in the place of each backend."""

        (end,) = run_children([self._job(source, instead="aot_eager")], self._limits(), self.scratch)
        self._note_fault("the control with aot_eager", end)
        return judge(end, self.expected, match=self.match).verdict is Verdict.SAME

    def verdict(self, source: str) -> Verdict | None:
        """Return the verdict on a text; None if `holds` was not asked about it."""
        return self._verdicts.get(source)

    def warn(self, sentence: str, error: Exception) -> None:
        """Note an error of this tool in the search, once, in the journal too."""
        said = f"{sentence}: {type(error).__name__}: {headline(str(error))}"
        self._warn(said, "".join(traceback.format_exception(error)))

    def _warn(self, said: str, trace: str) -> None:
        if said not in self.warnings:
            self.warnings.append(said)
            self.errors.append(trace)
            self._write({"phase": self.phase, "warning": said})

    def _note_fault(self, what: str, end: ChildEnd) -> None:
        if end.fault:
            self._warn(f"{what} failed by itself: {end.fault.strip().splitlines()[-1]}", end.fault)

    def _judged(self, run: SourceRun) -> Judged:
        judged = judge(run.end, self.expected, match=self.match)
        is_other = judged.verdict is Verdict.SAME and not all(each.holds(run) for each in self.conditions)
        return _another(judged) if is_other else judged

    @property
    def expected(self) -> Fingerprint:
        """The sought failure, which may also be raised where `moved` functions have gone."""
        names = [self.sought.raising.function] if self.sought.raising is not None else []
        for old, new in self.moved:
            names += [new] if old in names and new not in names else []
        frames = (Frame(SCRIPT, name) for name in names[1:])
        is_of_script = self.sought.raising is not None and self.sought.raising.module == SCRIPT
        forms = (replace(self.sought, raising=frame) for frame in frames if is_of_script)
        return replace(self.sought, forms=(*self.sought.forms, *forms))

    def _fails_for_all_draws(self, first: SourceRun) -> bool:
        """Whether further runs of a source that draws random numbers fail as well, which draw others unless seeded."""
        state = _drawn_anew(first.end)
        may_draw_unseen = _OTHER_GENERATORS.search(first.source) is not None
        if not may_draw_unseen and (state == {} or (state is None and "random" not in first.source)):
            return True
        for _ in range(_RUNS_OF_DRAWS - 1):
            (run,) = self._run_all([first.source])
            if self._judged(run).verdict is not Verdict.SAME:
                return False
            if state and state == _drawn_anew(run.end) and not may_draw_unseen:  # the script seeds its generators
                return True
        return True

    def _can_pass(self, source: str) -> bool:
        try:
            conditions = () if self.phase == MODULES[0] else self.conditions  # `mine.check` becomes `check`
            return missing_names(source) <= self.missing and all(each.may_hold(source) for each in conditions)
        except (SyntaxError, ValueError):
            return False

    def _job(
        self, source: str, *, compiled: bool = True, has_control: bool = False, instead: str = ""
    ) -> Callable[[], dict[str, Any]]:
        instead = instead or ("eager" if self.without_backends else "")
        watch = BackendWatch(self.folders, instead) if compiled else None
        if has_control:
            return lambda: run_after_control(source, self.file, watch)
        return lambda: run_source(source, compiled=compiled, file=self.file, watch=watch)

    def _run_all(self, sources: Sequence[str], *, has_control: bool = False) -> list[SourceRun]:
        if not sources:
            return []
        is_kill = self.sought.message == signal.SIGKILL.name
        jobs = [self._job(source, has_control=has_control) for source in sources]
        ends = (run_children if is_kill else run_again_if_killed)(jobs, self._limits(), self.scratch)
        is_inlined = self.phase == MODULES[0]
        return [SourceRun(source, end, is_inlined) for source, end in zip(sources, ends, strict=True)]

    def _record(self, run: SourceRun, judged: Judged) -> None:
        self._note_fault("a probe", run.end)
        self.counts[judged.verdict] += 1
        self._verdicts[run.source] = judged.verdict
        verdict, seconds, lines = judged.verdict.value, judged.seconds, len(run.source.splitlines())
        if judged.verdict is Verdict.SAME:
            self.slowest_seconds = max(self.slowest_seconds, seconds)
            self._fewest_lines = min(lines, self._fewest_lines or lines)
            for condition in self.conditions:
                condition.accept(run)
            self.accepted(run.source)
        probe = f"{self.phase}, {counted(lines, 'line')}: {verdict} in {seconds:.2f} s"
        size = self._fewest_lines
        self.show(Progress(Phase.REDUCING, step=self.phase, size=size, unit="line", probes=self.total, probe=probe))
        entry = {"phase": self.phase, "lines": lines, "verdict": verdict, "seconds": round(seconds, 4)}
        if judged.verdict is Verdict.OTHER and judged.failure is not None:
            keep_aside(self.others, run.source, judged.failure)
            entry["failure"] = judged.failure.fingerprint.sentence()
        self._write(entry)

    def _write(self, entry: dict[str, Any]) -> None:
        with self.journal.open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")
