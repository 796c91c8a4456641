"""Check that every run of a script shows the sought failure."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from minifier.failure import Fingerprint, Kind, Stage, matches, same
from minifier.process.progress import SILENT, Display, Phase, Progress
from minifier.verify.interpreter import ScriptRun, Started

RUNS = 3


@dataclass(frozen=True, slots=True)
class Verification:
    """Several runs of a repro; `same` counts the runs that showed the sought failure."""

    runs: tuple[ScriptRun, ...]
    same: int
    seconds: float

    @property
    def holds(self) -> bool:
        """Whether every run showed the failure."""
        return bool(self.runs) and self.same == len(self.runs)


def shows(run: ScriptRun, sought: Fingerprint, match: str | None, any_stage: bool = False) -> bool:
    """Whether a run showed the sought failure."""
    if run.failure is None:
        return False
    seen = run.failure
    if any_stage:
        seen = replace(seen, fingerprint=replace(seen.fingerprint, stage=sought.stage))
    # The pattern is for messages of exceptions; a failed comparison has assert_close's message.
    if match is not None and sought.stage is not Stage.COMPARE and sought.kind is not Kind.SILENT_FALLBACK:
        return matches(sought, seen, match)
    return same(sought, seen.fingerprint, renamed=True)


def verify(
    script: Path,
    sought: Fingerprint,
    *,
    timeout: float,
    extra_path: Sequence[str] = (),
    match: str | None = None,
    match_log: str | None = None,
    memory: int | None = None,
    more: Collection[str] | None = None,
    any_stage: bool = False,
    runs: int = RUNS,
    at_once: int = 2,
    display: Display = SILENT,
) -> Verification:
    """Run the script `runs` times, up to `at_once` in parallel, and count the runs that show the sought failure.

    `match` and `match_log` are the user's regular expressions for messages and for log records.
    `any_stage` is for a script that calls the backend itself: its traceback does not tell the stage.
    `memory` is each run's limit in bytes, capped at a fraction of the free memory.
    `more` are environment variables that the script gets besides the ordinary ones; None means all.

    The first run that does not show the failure is the last one. All interpreters but the first may have been started
    ahead. If one of these does not show the failure, none of them counts.
    """
    began = time.monotonic()
    done: list[ScriptRun] = []
    with contextlib.ExitStack() as stack:

        def start(ahead: bool) -> Started:
            started = Started(script, extra_path, timeout, sought, match_log, memory, more, ahead)
            return stack.enter_context(started)

        waiting: list[Started] = []
        fresh_runs: list[ScriptRun] = []  # of interpreters that were not started ahead
        may_be_ahead = True
        while len(done) < runs:
            while len(waiting) < at_once and len(done) + len(waiting) < runs:
                waiting.append(start(ahead=may_be_ahead and bool(done or waiting)))
            current = waiting.pop(0)
            display.show(Progress(Phase.VERIFYING, run=len(done) + 1, runs=runs))
            run = current.wait(display.tick)
            if current.ahead and not shows(run, sought, match, any_stage):
                # Repeating this run would be one more chance to fail: only fresh interpreters count from here on.
                done, waiting, may_be_ahead = fresh_runs, [each for each in waiting if not each.ahead], False
                continue
            done = [*done, run]
            fresh_runs = fresh_runs if current.ahead else [*fresh_runs, run]
            if not shows(run, sought, match, any_stage):
                break
    agreeing = sum(shows(run, sought, match, any_stage) for run in done)
    return Verification(tuple(done), agreeing, time.monotonic() - began)
