"""Run a script in fresh interpreters, read each end as a failure, and judge whether the sought one shows."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from minifier.data.case.switches import set_later
from minifier.data.failure import Aspect, Failure, Fingerprint, Kind, Stage, matches, same
from minifier.data.failure.evidence import exit_status, fatal_signal, hang, no_memory, stage_shown
from minifier.data.failure.fingerprint import aborted_without_memory, failure_of, of_line, with_native
from minifier.data.failure.frames import Link
from minifier.process.child import Child, signal_name, supervise
from minifier.process.interpreters import Interpreter, Interpreters, clean_environment
from minifier.process.machine import MemoryWatch, free_memory, limit_data
from minifier.process.progress import SILENT, Phase, Progress, Ui
from minifier.repro.emit.files_beside import files_beside
from minifier.repro.emit.statements import THE_END

RUNS = 3
_MAX_KILLED = 2  # interpreters that somebody killed and others replace


@dataclass(frozen=True, slots=True)
class Verification:
    """Several runs of a repro; `same` counts the runs that showed the sought failure.

    `control` is the run of the script with eager in the place of the backend; None if there was none.
    """

    runs: tuple[ScriptRun, ...]
    same: int
    seconds: float
    control: ScriptRun | None = None

    @property
    def agrees(self) -> bool:
        """Whether every run showed the failure."""
        return bool(self.runs) and self.same == len(self.runs)

    @property
    def passes_in_eager(self) -> bool | None:
        """Whether the control ended without any failure; None if there was none."""
        return None if self.control is None else self.control.failure is None

    @property
    def holds(self) -> bool:
        """Whether every run showed the failure, and the control did not fail."""
        return self.agrees and self.passes_in_eager is not False


def verify(
    script: Path,
    conditions: Conditions,
    control: Path | None = None,
    runs: int = RUNS,
    at_once: int = 2,
    display: Ui = SILENT,
) -> Verification:
    """Run the script `runs` times, and count the runs that show the sought failure.

    The `control`, the script with eager in the place of the backend, runs once, beside the first run; if it passes,
    further runs begin at its end. Up to `at_once` interpreters run in parallel. The first run that does not show the
    failure is the last, and so is the first if the control fails. An interpreter that somebody else kills is replaced.
    The first interpreter and the control's are started for their scripts; the others may have been started before and
    wait. If one that waited does not show the failure, the runs of all of these are made again.
    """
    began = time.monotonic()
    done: list[ScriptRun] = []
    fresh_runs: list[ScriptRun] = []  # of interpreters that were not started ahead
    may_be_ahead, killed = True, 0
    with contextlib.ExitStack() as stack:

        def start(path: Path, ahead: bool = False) -> Started:
            return stack.enter_context(Started(path, conditions, ahead))

        def end_of(started: Started, path: Path) -> tuple[ScriptRun, bool]:
            """Return the run, and whether its interpreter was started ahead."""
            nonlocal killed, may_be_ahead
            run = started.wait(display.tick)
            while _was_killed(run, conditions) and killed < _MAX_KILLED:
                killed, may_be_ahead = killed + 1, False
                display.say("an interpreter was killed (SIGKILL) while it ran the repro: starting another")
                started = start(path)
                run = started.wait(display.tick)
            return run, started.ahead

        def run_control() -> ScriptRun | None:
            if control is None:
                return None
            display.show(Progress(Phase.CONTROL))
            return end_of(start(control), control)[0]

        def fails_in_eager() -> bool:
            return of_eager is not None and of_eager.failure is not None

        waiting = [start(script)]
        of_eager = run_control() if at_once > 1 else None
        while len(done) < runs:
            while not fails_in_eager() and len(waiting) < at_once and len(done) + len(waiting) < runs:
                waiting.append(start(script, may_be_ahead))
            display.show(Progress(Phase.VERIFYING, run=len(done) + 1, runs=runs))
            run, was_ahead = end_of(waiting.pop(0), script)
            if was_ahead and not conditions.are_met(run):
                # A repeat would be a second chance, so only fresh interpreters count from here.
                done, waiting, may_be_ahead = fresh_runs, [each for each in waiting if not each.ahead], False
                continue
            done = [*done, run]
            fresh_runs = fresh_runs if was_ahead else [*fresh_runs, run]
            if not conditions.are_met(run):
                break
            of_eager = of_eager or run_control()
            if fails_in_eager():
                break
    shown = sum(map(conditions.are_met, done))
    return Verification(tuple(done), shown, time.monotonic() - began, of_eager if shown else None)


def _was_killed(run: ScriptRun, conditions: Conditions) -> bool:
    """Whether a SIGKILL that is not the sought failure ended the interpreter: the kernel's, for lack of memory, say."""
    return run.status == -signal.SIGKILL and not run.exhausted and not conditions.are_met(run)


_MEMORY_FRACTION = 0.3  # of the free memory: the limit for each of the scripts that run at once


@dataclass(frozen=True, slots=True)
class ScriptRun:
    """A run of a script: the exit status (None after a timeout), and the failure that showed, if any.

    `packages` are the top-level modules imported by the end of the run; empty if the interpreter died. `exhausted`:
    this tool killed the interpreter for its memory use.
    """

    status: int | None
    failure: Failure | None
    output: str
    seconds: float
    packages: tuple[str, ...] = ()
    exhausted: bool = False


@dataclass(frozen=True, slots=True)
class Conditions:
    """The failure that a script must show, and the conditions of its runs.

    `sought` tells how to read the script's end; None if no failure is known. `timeout` is in seconds. `extra_path` are
    folders for the import path. `match` and `match_log` are the user's regular expressions for messages and for log
    records. With `any_stage` the stage, which a script's end does not show, is ignored. `memory` is each run's limit in
    bytes, capped at a fraction of the free memory. With None, a script may reserve any amount and use most of the free
    memory, unless the sought failure is running out of memory. `more` are environment variables that the script gets in
    addition to the ordinary variables; None means all. `given` are variables with values of their own. `renamed` maps
    variables of the script to the nodes of the reduced graph that they stand for.
    """

    sought: Fingerprint | None
    timeout: float
    extra_path: Sequence[str] = ()
    match: str | None = None
    match_log: str | None = None
    memory: int | None = None
    more: Collection[str] | None = None
    given: Mapping[str, str] = field(default_factory=dict)
    any_stage: bool = False
    interpreters: Interpreters = field(default_factory=Interpreters)
    renamed: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_unlimited(self) -> bool:
        """Whether the script may use most of the free memory."""
        return self.memory is None and (self.sought is None or self.sought.kind is not Kind.OUT_OF_MEMORY)

    @property
    def missing_ahead(self) -> dict[str, str] | None:
        """The variables that an interpreter which was started ahead still needs; None if it cannot run the script."""
        if not self.is_unlimited or self.given or self.more:
            return None
        return set_later(os.environ) if self.more is None else {}

    def are_met(self, run: ScriptRun) -> bool:
        """Return whether a run showed the sought failure."""
        assert self.sought is not None, "a failure is sought"
        if run.failure is None:
            return False
        sought, seen = self.sought, run.failure
        if self.any_stage:
            seen = replace(seen, fingerprint=replace(seen.fingerprint, stage=sought.stage))
        # The pattern is for messages of exceptions; a failed comparison has assert_close's message.
        if self.match is not None and sought.stage is not Stage.COMPARE and sought.kind is not Kind.SILENT_FALLBACK:
            return matches(sought, seen, self.match)
        return same(sought, seen.fingerprint, renamed=self.renamed)


class Started:
    """An interpreter that runs a script. Leaving the `with` block kills the process and removes its files.

    `ahead` allows an interpreter that was started before the script existed.
    """

    def __init__(self, script: Path, conditions: Conditions, ahead: bool = False) -> None:
        self._conditions = conditions
        interpreters = conditions.interpreters
        self._missing = conditions.missing_ahead if ahead else None
        started_ahead = interpreters.take_ahead(script) if self._missing is not None else None
        self.ahead = started_ahead is not None
        self.interpreter = started_ahead or Interpreter(interpreters.launch)
        self.folder, self.observer = self.interpreter.folder, self.interpreter.observer
        self._looks = [MemoryWatch(interpreters.running)] if conditions.is_unlimited else []
        try:
            self.child = self._start(script)
        except BaseException:
            self.interpreter.remove()
            raise
        self.child.limit(conditions.timeout)
        interpreters.running.add(self.child)

    def _start(self, script: Path) -> Child:
        conditions = self._conditions
        read = files_beside(script.read_text(encoding="utf-8", errors="replace"))
        for file in script.parent.iterdir():
            if file == script or file.suffix == ".safetensors" or file.name in read:
                shutil.copyfile(file, self.interpreter.work / file.name)
        if conditions.sought is not None and conditions.sought.kind is Kind.SILENT_FALLBACK:
            (self.observer / "watch-logs").touch()
        if self.ahead:
            self._link_compiled()
            return self.interpreter.go_on(conditions.extra_path, self._missing or {})
        environment = clean_environment(self.folder, conditions.extra_path, conditions.more) | dict(conditions.given)
        self._link_compiled()
        memory = [] if conditions.is_unlimited else [conditions.memory, free_memory(_MEMORY_FRACTION)]
        limits = [limit for limit in memory if limit is not None]
        return self.interpreter.start(script.name, environment, (lambda: limit_data(min(limits))) if limits else None)

    def _link_compiled(self) -> None:
        """Share inductor's compiled checks and headers. They depend on the machine alone and take ten seconds."""
        from minifier.torch_side.torch_private.inductor import inductor_headers, link_libraries

        link_libraries(self.folder / "torchinductor_cache_dir", checks_only=True)
        headers = inductor_headers()
        if headers is not None:
            (self.folder / "tmpdir" / headers.name).symlink_to(headers)

    def wait(self, tick: Callable[[], object] = lambda: None) -> ScriptRun:
        """Wait for the end and call `tick` several times a second. Kill all remaining processes of the session."""
        child = self.child
        supervise([child], tick, self._looks)
        self.kill()
        status, seconds = None if child.timed_out else child.code, child.seconds
        output = self.interpreter.output()
        end = End(status, output, seconds, self.observer)
        failure = failure_shown(end, self._conditions.sought, self._conditions.match_log)
        if failure is not None:  # the message is quoted where this folder is gone
            failure = replace(failure, message=failure.message.replace(f"{self.interpreter.work}/", ""))
        return ScriptRun(status, failure, output, seconds, self._packages(), bool(child.exhausted))

    def _packages(self) -> tuple[str, ...]:
        told = self.observer / "packages.json"
        return tuple(json.loads(told.read_text(encoding="utf-8"))) if told.exists() else ()

    def kill(self) -> None:
        """Kill the interpreter and all its descendants."""
        self.interpreter.kill()
        self._conditions.interpreters.running.discard(self.child)

    def __enter__(self) -> Started:
        return self

    def __exit__(self, *_: object) -> None:
        """Kill the interpreter and remove its files."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


def run_script(script: Path, conditions: Conditions, tick: Callable[[], object] = lambda: None) -> ScriptRun:
    """Run the script once in a fresh interpreter.

    A script's end shows neither the stage of a death, nor whether an assertion compares inputs or gradients. The
    returned failure takes both from the sought failure.
    """
    with Started(script, conditions) as started:
        return started.wait(tick)


@dataclass(frozen=True, slots=True)
class End:
    """How a script ended: its status (negative: a signal; None: a timeout), its output, its observer's folder."""

    status: int | None
    output: str
    seconds: float
    observer: Path


# Printed by faulthandler.dump_traceback_later before it ends a hanging process with status 1.
_GUARD = re.compile(r"^Timeout \((\d+:\d\d:\d\d)(?:\.\d+)?\)!$", re.MULTILINE)

# Phrases in the messages of assert_close and of our templates' assertions.
_ASPECT_PHRASES = (
    ("attribute 'shape'", Aspect.SHAPE),
    ("attribute 'dtype'", Aspect.DTYPE),
    ("attribute 'stride()'", Aspect.STRIDE),
    ("attribute 'layout'", Aspect.STRIDE),
    ("attribute 'device'", Aspect.DEVICE),
    ("attribute '", Aspect.STRUCTURE),
    ("None mismatch", Aspect.STRUCTURE),
    ("types do not match", Aspect.STRUCTURE),
    ("length of the sequences mismatch", Aspect.STRUCTURE),
    ("keys of the mappings do not match", Aspect.STRUCTURE),
    ("do not share memory as in eager", Aspect.ALIASING),
    ("written over the result of an earlier call", Aspect.OVERWRITTEN),
    ("requires_grad or is_leaf is not as in eager", Aspect.AUTOGRAD),
    ("eager raises", Aspect.NO_EXCEPTION),
    ("differs from", Aspect.PREDICATE),
)
_NON_FINITE_ERROR = re.compile(r"[Aa]bsolute difference: -?(?:nan|inf)\b")


def _aspect(message: str) -> Aspect:
    for phrase, aspect in _ASPECT_PHRASES:
        if phrase in message:
            return aspect
    return Aspect.NON_FINITE if _NON_FINITE_ERROR.search(message) else Aspect.VALUES


def _difference(links: Sequence[Link], text: str, sought: Fingerprint) -> Failure | None:
    """Return the failed comparison that ended the script: its own assertion or torch.testing's. Otherwise None."""
    last = links[-1]
    module = last["frames"][-1][0] if last["frames"] else ""
    if last["type"] != "AssertionError" or not (module == "__main__" or module.startswith("torch.testing")):
        return None
    aspect = _aspect(last["message"])
    kind = Kind.NON_FINITE if aspect is Aspect.NON_FINITE else Kind.WRONG_RESULT
    if aspect.value in sought.aspects or sought.message in (Aspect.MUTATION.value, Aspect.GRADIENT.value):
        # Another aspect of the same results may show first; a script of the latter compares only inputs or gradients.
        aspect, kind = Aspect(sought.message), sought.kind
    return Failure(
        Fingerprint(Stage.COMPARE, kind, message=aspect.value), "AssertionError", last["message"], traceback=text
    )


def _fallback(end: End, sought: Fingerprint, match_log: str | None) -> Failure | None:
    """Return the log record or warning that reports the backend's fallback, or None."""
    path = end.observer / "records.jsonl"
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        level, logger, message = json.loads(line)
        log_line = f"{level} {logger}: {message}"
        if match_log is not None:
            is_fallback = re.search(match_log, log_line) is not None
        else:
            lines = (of_line(sought.stage, each) for each in (message, log_line))
            is_fallback = any(same(sought, each, renamed={}) for each in lines)
        if is_fallback:
            return Failure(sought, sought.kind.value, message, end.output)
    return None


def failure_shown(end: End, sought: Fingerprint | None, match_log: str | None = None) -> Failure | None:
    """Return the failure that a script showed, with the output of native code; None if the script ended well.

    `sought` adds facts that the output does not show: the stage of a death or a hang, whether inputs or gradients are
    compared, and which log record is a failure.
    """
    failure = _failure_shown(end, sought, match_log)
    return with_native(failure, end.output) if failure is not None else None


def _failure_shown(end: End, sought: Fingerprint | None, match_log: str | None) -> Failure | None:
    stage = sought.stage if sought is not None else Stage.RUN
    record = end.observer / "seen.json"
    if end.status is None:
        return hang(stage, end.seconds, end.output)
    if record.exists():
        seen = json.loads(record.read_text(encoding="utf-8"))
        difference = None
        if sought is not None and sought.stage is Stage.COMPARE:
            difference = _difference(seen["links"], seen["text"], sought)
        return difference or failure_of(stage_shown(seen["links"]), seen["links"], seen["text"])
    guarded = _GUARD.search(end.output)
    if end.status == 1 and guarded:
        return hang(stage, _seconds(guarded.group(1)), end.output)
    if end.status == -signal.SIGABRT and aborted_without_memory(sought, end.output):
        return no_memory(stage, end.output)
    if end.status < 0:
        return fatal_signal(stage, signal_name(-end.status), end.output)
    if end.status > 0:
        return exit_status(stage, end.status, end.output)
    if sought is not None and sought.kind is Kind.SILENT_FALLBACK:
        return _fallback(end, sought, match_log)
    if sought is not None and sought.exits_with_0:
        # Such a script always ends with status 0, but prints THE_END only if it does not fail.
        return None if THE_END in end.output.splitlines() else exit_status(stage, 0, end.output)
    return None


def _seconds(clock: str) -> int:
    hours, minutes, seconds = map(int, clock.split(":"))
    return 3600 * hours + 60 * minutes + seconds
