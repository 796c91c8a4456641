"""Check that every run of a script shows the sought failure, and that its control passes."""

from __future__ import annotations

import contextlib
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from minifier.process.progress import SILENT, Phase, Progress, Ui
from minifier.verify.interpreter import Conditions, ScriptRun, Started

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

    The `control`, the script with eager in the place of the backend, runs once. Up to `at_once` interpreters run in
    parallel, including the control. The first run that does not show the failure is the last, and the control is
    killed. An interpreter that somebody else kills is replaced. All interpreters but the first may have been started
    ahead. If a pre-started interpreter does not show the failure, the runs of all pre-started interpreters are
    discarded.
    """
    began = time.monotonic()
    done: list[ScriptRun] = []
    with contextlib.ExitStack() as stack:

        def start(path: Path, ahead: bool) -> Started:
            return stack.enter_context(Started(path, conditions, ahead))

        waiting: list[Started] = []
        fresh_runs: list[ScriptRun] = []  # of interpreters that were not started ahead
        may_be_ahead, killed = True, 0
        controlling: Started | None = None
        while len(done) < runs:
            while len(waiting) < at_once and len(done) + len(waiting) < runs:
                waiting.append(start(script, may_be_ahead and bool(done or waiting)))
            if control is not None and controlling is None and len(waiting) < at_once:
                controlling = start(control, may_be_ahead)
            current = waiting.pop(0)
            display.show(Progress(Phase.VERIFYING, run=len(done) + 1, runs=runs))
            run = current.wait(display.tick)
            if _was_killed(run, conditions) and killed < _MAX_KILLED:
                killed += 1
                display.say("an interpreter was killed (SIGKILL) while it ran the repro: starting another")
                may_be_ahead = False
                continue
            if current.ahead and not conditions.are_met(run):
                # A repeat would be a second chance, so only fresh interpreters count from here.
                done, waiting, may_be_ahead = fresh_runs, [each for each in waiting if not each.ahead], False
                continue
            done = [*done, run]
            fresh_runs = fresh_runs if current.ahead else [*fresh_runs, run]
            if not conditions.are_met(run):
                break
        agreeing = sum(map(conditions.are_met, done))
        of_eager = None
        if control is not None and agreeing == len(done) == runs:
            controlling = controlling or start(control, may_be_ahead)
            display.show(Progress(Phase.CONTROL))
            of_eager = controlling.wait(display.tick)
            doubtful = controlling.ahead and of_eager.failure is not None  # as a run that does not show the failure
            while doubtful or (_was_killed(of_eager, conditions) and killed < _MAX_KILLED):
                killed += not doubtful
                doubtful, of_eager = False, start(control, ahead=False).wait(display.tick)
    return Verification(tuple(done), agreeing, time.monotonic() - began, of_eager)


def _was_killed(run: ScriptRun, conditions: Conditions) -> bool:
    """Whether a SIGKILL that is not the sought failure ended the interpreter: the kernel's, for lack of memory, say."""
    return run.status == -signal.SIGKILL and not run.exhausted and not conditions.are_met(run)
