"""Progress of a run: the reports of a phase and the seconds it takes, and the pipe from a forked phase."""

from __future__ import annotations

import contextlib
import enum
import functools
import os
import pickle
import signal
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from types import TracebackType
from typing import Any, TypeVar

from minifier.data.case.store import written_whole
from minifier.process.channel import ChannelEnded, Message, Receiver, Sender
from minifier.process.descriptors import out_of_the_way
from minifier.process.forked_step import StepEnd, run_step
from minifier.process.interrupts import deaf
from minifier.process.temporary import scratch_folder

_MAX_RUNS = 3  # of a forked phase that is killed from outside
_Result = TypeVar("_Result")


class Phase(enum.Enum):
    """The current activity of a run, in words for the user."""

    LOADING = "loading torch"
    SCRIPT = "running"
    REPLAY = "repeating the last call of the process that died capturing into"
    REDUCING = "reducing"
    WRITING = "writing the repro"
    VERIFYING = "verifying the repro"
    CONTROL = "running the repro in eager mode"
    CONTROLS = "running the repro with aot_eager"
    EXPLAINING = "asking what is at fault"
    CHECKING = "running the repro"
    TESTING = "running the test"
    REPORTS = "writing the reports"
    HUNTING = "hunting"


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a phase has come. A field that is unknown, or has no meaning for the phase, is zero or empty.

    `subject` is the file or folder that the phase works on, and `step` what it does now. A reduction sets `size`, the
    number of `unit`s in the smallest program so far; `step`, the search phase and the pass; and `probe`, the last probe
    in words. `to_prove` is the maximal number of probes that the proof takes, in `seconds_to_prove`. A verification is
    in interpreter `run` of `runs`. `to_limit` are the seconds that count so far for the limit of a long call, and the
    limit: time in which the call waited for a processor does not count.
    """

    phase: Phase
    subject: str = ""
    step: str = ""
    size: int | None = None
    unit: str = "op"
    probes: int = 0
    probe: str = ""
    to_prove: int = 0
    seconds_to_prove: float = 0.0
    run: int = 0
    runs: int = 0
    to_limit: tuple[float, float] | None = None

    @property
    def title(self) -> str:
        """The phase and its subject."""
        return f"{self.phase.value} {self.subject}".strip()

    def clock(self, seconds: float) -> str:
        """Return the seconds that the phase has lasted; if there is a limit, those that count for it instead."""
        return "{:.0f} of {:.0f} s".format(*self.to_limit) if self.to_limit else f"{seconds:.0f} s"

    def describe(self, seconds: float = 0.0) -> str:
        """Return the whole line, with the seconds that the phase has lasted if they are at least one."""
        facts = []
        if self.size is not None:
            facts.append(f"{counted(self.size, self.unit)} left")
        if self.probes:
            facts.append(counted(self.probes, "probe"))
        if self.runs > 1:
            facts.append(f"interpreter {self.run} of {self.runs}")
        if seconds >= 1:
            facts.append(self.clock(seconds))
        line = f"{self.title}: {', '.join(facts)}" if facts else self.title
        if self.to_prove:
            return f"{line} ({self.step}: at most {counted(self.to_prove, 'probe')}, {self.seconds_to_prove:.0f} s)"
        return f"{line} ({self.step})" if self.step else line


def counted(number: int, noun: str) -> str:
    """Return `1 op`, `2 ops`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


class Ui:
    """Shows progress, prints lines and asks questions; this base class is silent."""

    def show(self, progress: Progress) -> None:
        """Take in how far the run has come."""

    def tick(self) -> None:
        """Let time pass on the display. Every waiting loop calls `tick`, several times a second."""

    def say(self, text: str) -> None:
        """Print a line."""

    def detail(self, text: str) -> None:
        """Print a line that only a verbose run shows."""

    def error(self, text: str) -> None:
        """Print an error, however quiet the user wants the run."""

    def ask(self, question: str) -> bool:
        """Ask a yes-or-no question. Return False if nobody can be asked."""
        return False


SILENT = Ui()


class ProgressPipe(Ui):
    """A pipe from a forked process, which calls `show` and `say`, to its parent, which calls `messages`."""

    def __init__(self) -> None:
        reading, writing = os.pipe()
        self._receiver, self._sender = Receiver(reading), Sender(out_of_the_way(writing))

    def __enter__(self) -> ProgressPipe:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        os.close(self._receiver.file)
        os.close(self._sender.file)

    def show(self, progress: Progress) -> None:
        """Send how far the reduction has come."""
        self._send(progress={**asdict(progress), "phase": progress.phase.value})

    def say(self, text: str) -> None:
        """Send a line for the user."""
        self._send(line=text)

    def _send(self, **message: Any) -> None:
        # A backend of the user's may close the pipe: the reduction goes on without a display.
        with contextlib.suppress(ChannelEnded):
            self._sender.send(**message)

    def messages(self) -> list[Progress | str]:
        """Return all complete messages that have arrived; never wait."""
        return [known for message in self._receiver.received() if (known := _read(message)) is not None]


def _read(message: Message) -> Progress | str | None:
    """Return the progress or the line of a message; None for what code of the user's wrote."""
    try:
        if "line" in message:
            return str(message["line"])
        return Progress(**{**message["progress"], "phase": Phase(message["progress"]["phase"])})
    except (ValueError, LookupError, TypeError, AttributeError):
        return None


def run_displayed(
    work: Callable[[ProgressPipe], int], ui: Ui, interrupting: Callable[[], None] = lambda: None
) -> StepEnd:
    """Run `work` in a forked child, as `run_step` does, and display the messages of its channel.

    A child that is killed by SIGKILL, which this tool does not send, runs again, up to `_MAX_RUNS` times in all.
    """
    for run in range(1, _MAX_RUNS + 1):
        with ProgressPipe() as channel:
            listen = functools.partial(_show_messages, channel, ui)
            try:
                end = run_step(functools.partial(work, channel), listen, interrupting=interrupting)
            finally:
                listen()
        if end.signal != signal.SIGKILL or end.interrupted or run == _MAX_RUNS:
            break
        ui.say("a process of minify was killed (SIGKILL), perhaps by the kernel for lack of memory: going on")
    return end


def _show_messages(channel: ProgressPipe, ui: Ui) -> None:
    for message in channel.messages():
        if isinstance(message, str):
            ui.say(message)
        else:
            ui.show(message)
    ui.tick()


def run_for_result(
    work: Callable[[ProgressPipe], _Result], ui: Ui, interrupting: Callable[[], None] = lambda: None
) -> tuple[_Result | None, StepEnd]:
    """Run `work` in a forked child, as `run_displayed` does. Return its result, and the child's end.

    The result is None if the child died before.
    """
    with scratch_folder("minify-") as folder:
        path = folder / "result"

        def work_and_write(channel: ProgressPipe) -> int:
            result = work(channel)
            with deaf(), written_whole(path) as temporary:  # the work is complete
                temporary.write_bytes(pickle.dumps(result))
            return 0

        end = run_displayed(work_and_write, ui, interrupting)
        return (pickle.loads(path.read_bytes()) if path.exists() else None), end


class PhaseClock(Ui):
    """Hands everything to another display, and counts the seconds of each phase that is shown."""

    def __init__(self, ui: Ui = SILENT, now: Callable[[], float] = time.monotonic) -> None:
        self._ui, self._now = ui, now
        self.restart()

    def restart(self) -> None:
        """Begin anew, at no second of any phase."""
        self._phase: Phase | None = None
        self.begun = self._since = self._now()
        self._seconds: dict[str, float] = {}

    @property
    def total(self) -> float:
        """Return the seconds since the beginning."""
        return self._now() - self.begun

    def seconds(self) -> dict[str, float]:
        """Return the seconds of each phase so far, by name; the time before the first phase belongs to that phase."""
        if self._phase is not None:
            self._count(self._phase)
        return dict(self._seconds)

    def show(self, progress: Progress) -> None:
        """Count, and hand on."""
        if progress.phase is not self._phase:
            self._count(self._phase or progress.phase)
            self._phase = progress.phase
        self._ui.show(progress)

    def _count(self, phase: Phase) -> None:
        now, name = self._now(), phase.name.lower()
        self._seconds[name] = self._seconds.get(name, 0.0) + now - self._since
        self._since = now

    def tick(self) -> None:
        """Hand on."""
        self._ui.tick()

    def say(self, text: str) -> None:
        """Hand on."""
        self._ui.say(text)

    def detail(self, text: str) -> None:
        """Hand on."""
        self._ui.detail(text)

    def error(self, text: str) -> None:
        """Hand on."""
        self._ui.error(text)

    def ask(self, question: str) -> bool:
        """Hand on."""
        return self._ui.ask(question)
