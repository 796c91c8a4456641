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

_FACT = r"(\d+ (op|line)s? left|\d+ probes?|interpreter \d of \d|\d+ s)"
STATUS = re.compile(
    r"minify: (loading torch|reducing|verifying the repro|trying the repro with the backends eager and aot_eager"
    rf"|writing the reports)(: {_FACT}(, {_FACT})*)?( \([^)]*\)?)?(\^C)?"
)


def rows_of(screen: pyte.Screen) -> list[str]:
    """The rows down to the last that is not empty."""
    rows = [row.rstrip() for row in screen.display]
    while rows and not rows[-1]:
        rows.pop()
    return rows


def without_figures(line: str) -> str:
    """The line with its counts of probes and seconds replaced."""
    return re.sub(r"[\d.]+ s\b", "N s", re.sub(r"\d+ probes?", "N probes", line))


@dataclass
class Shown:
    """What a terminal of so many columns and rows showed of a command: `rows` in the end, and the status lines in
    between."""

    columns: int = 100
    lines: int = 30
    code: int = -1
    written: str = ""
    statuses: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.screen = pyte.Screen(self.columns, self.lines)
        self._stream = pyte.ByteStream(self.screen)

    @property
    def rows(self) -> list[str]:
        return rows_of(self.screen)

    def feed(self, piece: bytes) -> None:
        """Takes what was written; a status line must have its row for itself, at any moment."""
        self._stream.feed(piece)
        self.written += piece.decode(errors="replace")
        for row in self.rows:
            if not row.startswith("minify: ") or STATUS.match(row) is None:
                assert "minify: " not in row[1:], row
            elif len(row) < self.columns - 3:
                assert STATUS.fullmatch(row), row
                self.statuses += [row] if row not in self.statuses[-1:] else []
            else:
                assert len(row) == self.columns - 3, row
                self.statuses.append(row)

    def resize(self, terminal: int, columns: int) -> None:
        """Makes the terminal narrower."""
        self.columns = columns
        self.screen.resize(self.lines, columns)
        set_size(terminal, self.lines, columns)


def set_size(terminal: int, lines: int, columns: int) -> None:
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))


def in_a_terminal(
    project: Project,
    *arguments: str,
    columns: int = 100,
    meanwhile: Callable[[Shown, int], None] = lambda shown, terminal: None,
    **environment: str,
) -> Shown:
    """What `minify ARGUMENTS...` shows when its standard files are a terminal; `meanwhile` is called after each piece
    that it writes."""
    shown = Shown(columns)
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(project.folder)
        command = [sys.executable, "-m", "minifier", *arguments]
        os.execve(command[0], command, {**project.environment(**environment), "TERM": "xterm"})
    set_size(terminal, shown.lines, columns)
    while True:
        try:
            piece = os.read(terminal, 4096)
        except OSError:  # the other end is closed
            break
        if not piece:
            break
        shown.feed(piece)
        meanwhile(shown, terminal)
    os.close(terminal)
    shown.code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return shown
