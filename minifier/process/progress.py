"""Progress of a run: what a phase reports, and the pipe through which a forked phase reports it to its parent.

One process draws, the one that the user started: it starts no thread, but draws from the loops in which it waits.
"""

from __future__ import annotations

import contextlib
import enum
import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from types import TracebackType
from typing import Any

from minifier.process.descriptors import identity, out_of_the_way
from minifier.process.forked_step import StepEnd, run_step
from minifier.process.interrupts import uninterrupted

_CHUNK = 1 << 16


class Phase(enum.Enum):
    """What a run is busy with, in words for the user."""

    LOADING = "loading torch"
    CONNECTING = "connecting to the cluster"
    SCRIPT = "running"
    REPLAY = "repeating the last call of the process that died capturing into"
    REDUCING = "reducing"
    VERIFYING = "verifying the repro"
    CONTROLS = "trying the repro with the backends eager and aot_eager"
    CHECKING = "running the repro"
    REPORTS = "writing the reports"


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a phase has come; zero or empty where that is unknown or means nothing for the phase.

    `subject` is the file or folder that the phase works on. Of a reduction, `size` counts the smallest program so far
    in `unit`s; `step` is the search phase and the pass, `probe` the last probe in words, `to_prove` how many probes the
    proof takes at most, in `seconds_to_prove`. A verification is in interpreter `run` of `runs`.
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

    @property
    def title(self) -> str:
        """The phase, and what it is about."""
        return f"{self.phase.value} {self.subject}".strip()

    def describe(self, seconds: float) -> str:
        """Return the whole line for a phase that has lasted so many seconds."""
        facts = []
        if self.size is not None:
            facts.append(f"{counted(self.size, self.unit)} left")
        if self.probes:
            facts.append(counted(self.probes, "probe"))
        if self.runs > 1:
            facts.append(f"interpreter {self.run} of {self.runs}")
        if seconds >= 1:
            facts.append(f"{seconds:.0f} s")
        line = f"{self.title}: {', '.join(facts)}" if facts else self.title
        if self.to_prove:
            return f"{line} ({self.step}: at most {counted(self.to_prove, 'probe')}, {self.seconds_to_prove:.0f} s)"
        return f"{line} ({self.step})" if self.step else line


def counted(number: int, noun: str) -> str:
    """Return `1 op`, `2 ops`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


class Display:
    """Shows progress; this one shows nothing."""

    def show(self, progress: Progress) -> None:
        """Take in how far the run has come."""

    def tick(self) -> None:
        """Let time pass on the display: every loop that waits calls it, several times a second."""


class Ui(Display):
    """A display that also tells the user lines and asks questions; this one is silent."""

    def say(self, text: str) -> None:
        """Tell a line."""

    def detail(self, text: str) -> None:
        """Tell a line that only a verbose run shows."""

    def error(self, text: str) -> None:
        """Tell what went wrong, however quiet the user wants the run."""

    def ask(self, question: str) -> bool:
        """Ask a question that is answered by yes or no; no where nobody can be asked."""
        return False


SILENT = Ui()


class Channel(Display):
    """A pipe from a forked process, which calls `show` and `say`, to its parent, which calls `messages`."""

    def __init__(self) -> None:
        self._from, into = os.pipe()
        os.set_blocking(self._from, False)
        self._into = out_of_the_way(into)
        self._identity = identity(self._into)
        self._unread = b""

    def __enter__(self) -> Channel:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        os.close(self._from)
        os.close(self._into)

    def show(self, progress: Progress) -> None:
        """Send how far the reduction has come."""
        self._send({"progress": {**asdict(progress), "phase": progress.phase.value}})

    def say(self, text: str) -> None:
        """Send a line for the user."""
        self._send({"line": text})

    def _send(self, message: dict[str, Any]) -> None:
        data = json.dumps(message).encode() + b"\n"
        # A backend of the user's may close the pipe: the reduction goes on without a display.
        with uninterrupted(), contextlib.suppress(OSError):  # no message is cut in two
            while data and identity(self._into) == self._identity:
                data = data[os.write(self._into, data) :]

    def messages(self) -> list[Progress | str]:
        """Return all complete messages that have arrived; never wait."""
        with contextlib.suppress(BlockingIOError):
            while chunk := os.read(self._from, _CHUNK):
                self._unread += chunk
        *lines, self._unread = self._unread.split(b"\n")
        return [message for line in lines if (message := _read(line)) is not None]


def _read(line: bytes) -> Progress | str | None:
    """Return a line of the pipe as a message; None if the user's code, which inherits the pipe, wrote it."""
    try:
        message = json.loads(line)
        if "line" in message:
            return str(message["line"])
        known = {field.name for field in fields(Progress)}
        given = {name: value for name, value in message["progress"].items() if name in known}
        return Progress(**{**given, "phase": Phase(given["phase"])})
    except (ValueError, LookupError, TypeError, AttributeError):
        return None


def run_displayed(work: Callable[[Channel], int], ui: Ui, interrupting: Callable[[], object] = lambda: None) -> StepEnd:
    """Run `work` in a forked child, as `run_step` does, and display what it sends through the channel."""
    with Channel() as channel:

        def listen() -> None:
            for message in channel.messages():
                if isinstance(message, str):
                    ui.say(message)
                else:
                    ui.show(message)
            ui.tick()

        try:
            return run_step(lambda: work(channel), listen, interrupting=interrupting)
        finally:
            listen()
