"""Show the progress of a run and its result, on standard error."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Literal

import click
from rich.console import Console as RichConsole
from rich.text import Text

from minifier.data.case.store import RESULT
from minifier.data.failure.normalise import printable
from minifier.process.interrupts import before_stops
from minifier.process.progress import Progress, Ui
from minifier.repro.report.last_block import last_block, lines_of

if TYPE_CHECKING:  # importing it takes long
    from minifier.repro.report.outcome import Outcome
from rich.cells import cell_len, set_cell_size

_MIN_ROWS, _MIN_COLUMNS = 4, 20  # a smaller terminal gets no status line
_SAVE, _RESTORE = "\x1b7", "\x1b8"  # the cursor and its colours
_ROOM_BELOW = "\x1bD\x1b[A"  # one row down, which scrolls at the bottom, and up again in the same column
_ERASE_BELOW = "\x1b[0m\x1bE\x1b[J"  # from the next row on
_WHOLE_SCREEN = "\x1b[r"

SECONDS_BETWEEN_LINES = 10.0  # ahead of a phase's first line of progress without a status line; then twice as many


def _standard_error() -> RichConsole:
    terminal = sys.stderr.isatty()
    colours: Literal["auto"] | None = "auto" if terminal and not os.environ.get("NO_COLOR") else None
    return RichConsole(file=sys.stderr, force_terminal=terminal, color_system=colours, highlight=False)


def print_line(text: str) -> None:
    """Print a line to standard output, with escapes for what could move a terminal's cursor."""
    print(printable(text, kept="\t"))


def print_error(text: str) -> None:
    """Print lines to standard error, with escapes likewise: a message may quote any text."""
    print(printable(text), file=sys.stderr)


class Console(Ui):
    """Writes to standard error, so that standard output stays the script's own.

    A terminal gets a status line. A pipe, or a terminal that can have none, gets a line for each phase, another after
    `SECONDS_BETWEEN_LINES`, and further ones after pauses that double.
    `verbose` adds a line for each probe. `machine` prints the result to standard output, as a line of JSON.
    """

    def __init__(
        self,
        quiet: bool = False,
        verbose: bool = False,
        machine: bool = False,
        to: RichConsole | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._quiet, self._verbose, self._machine, self._clock = quiet, verbose, machine, clock
        self._to = to or _standard_error()
        self._on_terminal = self._to.is_terminal and not self._to.is_dumb_terminal
        self._row = BottomRow(self._to)
        self._progress: Progress | None = None
        self._began = self._wrote = clock()
        self._pause = SECONDS_BETWEEN_LINES
        self._ending = contextlib.ExitStack()

    def __enter__(self) -> Console:
        if self._on_terminal:
            self._ending.enter_context(before_stops(self._row.remove))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Erase the status line, even after an exception."""
        self._ending.close()
        self._row.remove()

    def _write(self, text: str, style: str = "") -> None:
        """Write lines where the cursor is. The terminal wraps them, so that a copy has no line breaks."""
        self._to.print(Text(printable(text), style=style), soft_wrap=True)
        self._to.file.flush()
        self._wrote = self._clock()

    def say(self, text: str) -> None:
        """Write a line, unless quiet."""
        if not self._quiet:
            self._write(f"minify: {text}")

    def detail(self, text: str) -> None:
        """Write a line if verbose and not quiet."""
        if self._verbose:
            self.say(text)

    def error(self, text: str) -> None:
        """Write a line even if quiet."""
        self._write(f"minify: {text}")

    @property
    def can_ask(self) -> bool:
        """Whether somebody can answer a question: there is a terminal, and the console is not quiet."""
        return not self._quiet and self._on_terminal and sys.stdin.isatty()

    def ask(self, question: str) -> bool:
        """Ask a yes-or-no question. Return False if nobody can answer, or if quiet.

        Raises KeyboardInterrupt for Ctrl-C.
        """
        if not self.can_ask:
            return False
        self._row.remove()
        try:
            return click.confirm(printable(f"minify: {question}"), err=True)
        except click.Abort as abort:  # also the end of the input
            click.echo(err=True)
            if isinstance(abort.__context__, KeyboardInterrupt):
                raise KeyboardInterrupt from None
            return False

    def show(self, progress: Progress) -> None:
        """Store the progress. A new phase is shown at once, other changes with the next tick."""
        before, self._progress = self._progress, progress
        is_new = before is None or before.title != progress.title
        if before is None or is_new or progress.probes < before.probes:
            self._began, self._pause = self._clock(), SECONDS_BETWEEN_LINES
        if is_new and not self._draw(progress):
            self.say(progress.title)
        if progress.probe:
            self.detail(f"probe {progress.probes}: {progress.probe}")

    def tick(self) -> None:
        """Redraw the status line. Without one, write a line if the last is old enough, and wait twice as long then."""
        if self._progress is None or self._draw(self._progress):
            return
        if self._clock() - self._wrote >= self._pause:
            self._pause *= 2
            self.say(self._progress.describe(self._clock() - self._began))

    def _draw(self, progress: Progress) -> bool:
        """Draw the status line; return False if there is none, as the console is quiet or has no terminal for it."""
        if self._quiet or not self._on_terminal:
            return False
        return self._row.draw(f"minify: {progress.describe()}", progress.clock(self._clock() - self._began))

    def final(self, outcome: Outcome) -> None:
        """Write the last lines of the run."""
        width = (self._row.size().columns or None) if self._on_terminal else None
        for line, style in lines_of(last_block(outcome), width):
            self._write(line, style)
        if self._machine:
            print(json.dumps(json.loads((outcome.folder / RESULT).read_text(encoding="utf-8"))), flush=True)


class BottomRow:
    """Draws a line in the last row, which is taken out of what scrolls.

    The cursor stays where it was, so that other processes may write to the terminal at any time.
    """

    def __init__(self, console: RichConsole) -> None:
        self._console = console
        self._size: os.terminal_size | None = None  # of the terminal when its last row was taken out
        self._drawn = ""

    def draw(self, left: str, right: str) -> bool:
        """Replace the row by `left`, cut where the terminal is too narrow, and `right` at its edge.

        Return False, without a row, in a terminal that is too small or does not tell its size.
        """
        size = self.size()
        if size.lines < _MIN_ROWS or size.columns < _MIN_COLUMNS:
            self.remove()
            return False
        left = printable(left, kept="")
        width = size.columns - cell_len(right) - 2  # a space between, and the last column, which would wrap
        text = set_cell_size(left if cell_len(left) <= width else f"{set_cell_size(left, width - 1)}…", width)
        line = f"{text} {right}"
        if size != self._size:
            self.remove()
        elif line == self._drawn:
            return True
        scrolling = "" if size == self._size else f"{_ROOM_BELOW}{_SAVE}\x1b[1;{size.lines - 1}r{_RESTORE}"
        self._size, self._drawn = size, line
        self._write(f"{scrolling}{_SAVE}\x1b[{size.lines};1H\x1b[0m\x1b[2K{line}{_RESTORE}")
        return True

    def remove(self) -> None:
        """Erase the row, if drawn, and let the whole screen scroll again.

        The terminal may have a new size, and may have moved or wrapped the row: all rows below the cursor are erased.
        """
        if self._size is not None:
            self._size, self._drawn = None, ""
            self._write(f"{_SAVE}{_WHOLE_SCREEN}{_RESTORE}{_ROOM_BELOW}{_SAVE}{_ERASE_BELOW}{_RESTORE}")

    def _write(self, text: str) -> None:
        """Write in one piece: output of other processes comes before or after."""
        self._console.file.write(text)
        self._console.file.flush()

    def size(self) -> os.terminal_size:
        """Return the terminal's current size; the environment's COLUMNS may be outdated. Zeros: it tells none."""
        try:
            return os.get_terminal_size(self._console.file.fileno())
        except OSError:  # a text in memory, no terminal
            return os.terminal_size((self._console.width, self._console.height))
