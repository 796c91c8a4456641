"""A command in a terminal, and what the terminal shows: its rows, at the end and in between."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import sys
import termios
from collections.abc import Callable
from dataclasses import dataclass, field

import pyte
from vocabulary import Project

_TITLE = (
    r"minify: (loading torch|running \S+\.py( again, [^(:\n]+)?|reducing|writing the repro|verifying the repro"
    r"|running the repro (\S+|in eager mode|with aot_eager)|writing the reports)"
)
_FACT = r"(\d+ (op|line)s? left|\d+ probes?|interpreter \d of \d)"
STATUS = re.compile(rf"{_TITLE}(: {_FACT}(, {_FACT})*)?( \(.*\)?)?")
_AFTER_SILENCE = re.compile(rf"(?m)^{_TITLE}: (({_FACT}|\d+ s)(, )?)+( \(.*\))?\n")
_TIMED = re.compile(r"(minify: .*?)(…)? +\d+ s")


def rows_of(screen: pyte.Screen) -> list[str]:
    """The rows down to the last that is not empty."""
    rows = [row.rstrip() for row in screen.display]
    while rows and not rows[-1]:
        rows.pop()
    return rows


def without_figures(line: str) -> str:
    """The line with its counts of probes and seconds replaced."""
    return re.sub(r"[\d.]+ s\b", "N s", re.sub(r"\d+ probes?", "N probes", line))


def without_lines_after_silence(text: str) -> str:
    """Return the text without the lines of progress that a pipe gets every ten silent seconds."""
    return _AFTER_SILENCE.sub("", text)


@dataclass
class Shown:
    """What a terminal of so many columns and rows showed of a command: `rows` in the end, and the status lines in
    between."""

    columns: int = 100
    lines: int = 30
    code: int = -1
    pid: int = 0
    written: str = ""
    statuses: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.screen = pyte.HistoryScreen(self.columns, self.lines, history=1000)
        self._stream = pyte.ByteStream(self.screen)

    @property
    def rows(self) -> list[str]:
        return rows_of(self.screen)

    @property
    def scrolled(self) -> list[str]:
        """The rows that have left the terminal at its top."""
        lines = self.screen.history.top
        return ["".join(line[column].data for column in range(self.columns)).rstrip() for line in lines]

    def feed(self, piece: bytes) -> None:
        """Takes what was written; a status line must be in the last row, and nowhere else, at any moment."""
        self.written += piece.decode(errors="replace")
        for drawing in re.split(rb"(?<=\x1b8)", piece):
            self._stream.feed(drawing)
            self._look()

    def _look(self) -> None:
        *rows, last = [row.rstrip() for row in self.screen.display]
        for row in rows:
            assert _TIMED.fullmatch(row) is None, row
        if timed := _TIMED.fullmatch(last):
            assert len(last) == self.columns - 1, last
            status = timed.group(1)
            assert timed.group(2) or STATUS.fullmatch(status), last
            self.statuses += [status] if status not in self.statuses[-1:] else []


def set_size(terminal: int, lines: int, columns: int) -> None:
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))


def in_a_terminal(
    project: Project,
    *arguments: str,
    columns: int = 100,
    lines: int = 30,
    meanwhile: Callable[[Shown, int], None] = lambda shown, terminal: None,
    **environment: str,
) -> Shown:
    """What `minify ARGUMENTS...` shows when its standard files are a terminal; `meanwhile` is called after each piece
    that it writes."""
    shown = Shown(columns, lines)
    shown.pid, terminal = pty.fork()
    if shown.pid == 0:
        set_size(0, lines, columns)
        os.chdir(project.folder)
        command = [sys.executable, "-m", "minifier", *arguments]
        os.execve(command[0], command, {**project.environment(**environment), "TERM": "xterm"})
    try:
        while piece := _read(terminal):
            shown.feed(piece)
            meanwhile(shown, terminal)
    finally:
        os.close(terminal)  # ends a command that still runs
        shown.code = os.waitstatus_to_exitcode(os.waitpid(shown.pid, 0)[1])
    return shown


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 4096)
    except OSError:  # the other end is closed
        return b""
