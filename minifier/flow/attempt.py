"""The state of a run for a failing backend call, from the capture to a verified repro."""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from threading import Event
from typing import TypeVar

from minifier.capturing.capture import FoundFailures
from minifier.capturing.captured import Captured, FailingGraph
from minifier.capturing.script import Program
from minifier.data.case import BackendSource, Case
from minifier.data.case.run_folder import RunFolder, shown_path
from minifier.data.case.store import CASE
from minifier.data.settings import Settings
from minifier.errors import ExitCode, MachineFailed, MinifyError, StoppedAtOnce, StoppedEarly, ToolFailed, said_of_trace
from minifier.flow.folders import Asked
from minifier.process.interpreters import Interpreters
from minifier.process.machine import machine_failure
from minifier.process.progress import PhaseClock
from minifier.reduction.summary import Summary
from minifier.repro.emit.repro import Repro
from minifier.repro.verify import Verification

_State = TypeVar("_State")


@dataclass(frozen=True, slots=True)
class Run:
    """The settings and resources that all steps of a run share.

    `ui` counts the seconds of the run's phases. `ending` releases the locks of the run's folders. `errors` are the
    tracebacks of this tool's own errors so far. `with_threads` are the expressions of backends whose import was seen to
    start threads or a device. `locked` are the folders that the run has locked, by device and inode. `interrupted` is
    set by the first Ctrl-C: from then on the best so far is verified and reported, and nothing else is begun.
    `in_own_process`: the process is not the user's, which a run gives back as it was.
    """

    settings: Settings
    ui: PhaseClock = field(default_factory=PhaseClock)
    interpreters: Interpreters = field(default_factory=Interpreters)
    ending: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    errors: list[str] = field(default_factory=list)
    with_threads: set[str] = field(default_factory=set)
    locked: set[tuple[int, int]] = field(default_factory=set)
    interrupted: Event = field(default_factory=Event)
    in_own_process: bool = True

    def in_time(self, script: float) -> Run:
        """Return the run with its deadline, which is known once the script has run, for so many seconds."""
        return replace(self, settings=self.settings.for_run(script, self.ui.begun))

    def interrupt(self, message: str) -> None:
        """Take note of Ctrl-C, and say what follows."""
        self.interrupted.set()
        self.ui.say(message)

    def after(self, step: Callable[[_State], _State], state: _State) -> _State:
        """Return the state after a step; as it was, if an error of this tool ends the step."""
        after = state
        with self.going_on():
            after = step(state)
        return after

    @contextlib.contextmanager
    def going_on(self) -> Iterator[None]:
        """Keep the traceback of an error of this tool in the block, for the reports, and go on after the block.

        Errors for the user and errors of the machine pass.
        """
        try:
            yield
        except Exception as error:
            if isinstance(error, MinifyError) and error.exit_code is not ExitCode.INTERNAL:
                raise
            if isinstance(error, MachineFailed) or machine_failure(error) is not None:
                raise
            is_trace = isinstance(error, ToolFailed)
            self.errors.append(str(error) if is_trace else "".join(traceback.format_exception(error)))


@dataclass(frozen=True, slots=True)
class FailingCall:
    """A failing backend call: its failure in a run of the script.

    `is_recorded`: a second run of the script has recorded the inputs ahead of the call.
    """

    found: FoundFailures
    failing: FailingGraph
    is_recorded: bool = False

    @property
    def other_failures(self) -> tuple[str, ...]:
        """The script's other failures, in sentences."""
        own = self.failing.number, self.failing.call
        others = (each for each in self.found.captured.failing if (each.number, each.call) != own)
        return tuple(f"graph {each.number}: {each.sentence}" for each in others)


@dataclass(frozen=True, slots=True)
class Reduced:
    """A reduced Case, and the Case that it was reduced from."""

    summary: Summary
    minimal: Case
    source: Case


@dataclass(frozen=True, slots=True)
class ReproResult:
    """The result of a search for a repro. `case` is the Case of the last script; `reason` says why there is no repro.

    `check` is the verification of the repro, or of the last script that did not show the failure. `doubtful`: the last
    script ran to its end, although all probes of the Case had failed. `in_control`: a control showed the failure.
    """

    case: Case
    repro: Repro | None = None
    check: Verification | None = None
    reason: str = ""
    doubtful: bool = False
    in_control: bool = False


@dataclass(frozen=True, slots=True)
class Attempt:
    """The attempt to make a repro of a captured Case, with the results of the steps so far.

    `asked` is the command line: the script and its arguments; None where there is only a Case. `call` is the failing
    call; None where the Case was read from a folder. `capture_seconds` is how long the script ran. `error` says why the
    Case as captured was not reduced. `fallbacks` are the names of the starts, beside the usual one, that led here.
    `probes` are those of the starts that did not show the failure, by verdict.
    """

    run: Run
    folder: RunFolder
    case: Case
    asked: Asked | None = None
    call: FailingCall | None = None
    capture_seconds: float = 0.0
    reduced: Reduced | None = None
    repro_result: ReproResult | None = None
    error: MinifyError | None = None
    fallbacks: tuple[str, ...] = ()
    probes: dict[str, int] = field(default_factory=dict)

    @property
    def is_probed(self) -> bool:
        """Whether another process can have the graph and its backend."""
        is_saved = self.call is None or not self.call.failing.unsaved
        return is_saved and bool(self.case.graph.nodes) and self.case.backend.reach is not BackendSource.NONE

    @property
    def repro(self) -> Repro | None:
        """The verified repro, or None."""
        return self.repro_result.repro if self.repro_result is not None else None

    @property
    def reason(self) -> str:
        """Why there is no repro; "" for an attempt with a repro."""
        if self.error is not None:
            return str(self.error)
        if self.repro_result is not None:
            return self.repro_result.reason
        return said_of_trace(self.run.errors[-1]) if self.run.errors else ""

    @property
    def reduction(self) -> Reduced:
        """The result of the reduction, in steps that follow one."""
        assert self.reduced is not None, "the Case is not reduced"
        return self.reduced

    @property
    def program(self) -> Program:
        """The script, in steps that need one."""
        assert self.asked is not None, "a Case from elsewhere has no script"
        return self.asked.program

    def took(self, name: str) -> Attempt:
        """Return this attempt with a further name in `fallbacks`."""
        return replace(self, fallbacks=(*self.fallbacks, name))


@contextlib.contextmanager
def stopped_if_interrupted(attempt: Attempt) -> Iterator[None]:
    """Turn an interrupt of the block into an error that says what goes on from here."""
    folder = attempt.folder
    try:
        yield
    except KeyboardInterrupt:
        has_reduced = (folder.minimal / CASE).exists()
        kept = f"the reduced Case is in {shown_path(folder.minimal)}, and " if has_reduced else ""
        error = StoppedAtOnce if attempt.run.interrupted.is_set() else StoppedEarly
        raise error(f"interrupted; {kept}`minify reduce {folder.shown}` goes on") from None


def backend_fallbacks(compared: Captured | None) -> tuple[str, ...]:
    """Describe the exceptions that a backend caught itself, and the graphs that ran elsewhere: a head, and lines.

    Nothing without any. Only a run that compares results watches for them.
    """
    if compared is None or not compared.fallbacks:
        return ()
    left = len({seen.graph for seen in compared.fallbacks if seen.is_whole})
    graphs = len(compared.forwards)
    head = f"{', '.join(compared.backends)} caught exceptions of its own"
    if all(seen.is_plain for seen in compared.fallbacks):
        head = f"{', '.join(compared.backends)} hands work to inductor"
    elif left:
        ran = "none" if left == graphs else str(graphs - left)
        head = f"{', '.join(compared.backends)} ran {ran} of {graphs} graph{'s' if graphs != 1 else ''} itself"
    return (head, *dict.fromkeys(f"graph {seen.graph}: it {seen.sentence}" for seen in compared.fallbacks))
