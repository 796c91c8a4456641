"""Show the progress of a run and its result, on standard error."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from textwrap import shorten
from types import TracebackType
from typing import TYPE_CHECKING, Literal

import click
from rich.console import Console as RichConsole
from rich.control import Control
from rich.segment import ControlType
from rich.text import Text

from minifier.case.store import RESULT
from minifier.cli.options import Options
from minifier.errors import ExitCode, MinifyError
from minifier.failure.normalise import headline
from minifier.process.progress import Phase, Progress, Ui, counted

if TYPE_CHECKING:  # importing it would import torch before the arguments are checked
    from minifier.report.outcome import Outcome

EXIT_CODE = {"reduced": ExitCode.REDUCED, "stopped": ExitCode.STOPPED, "no-repro": ExitCode.NO_REPRO}
_USER_CODE_PHASES = (Phase.SCRIPT, Phase.REPLAY)  # the user's code may write to the terminal
_NO_REPRO = "no standalone repro shows this failure"
SECONDS_BETWEEN_LINES = 10.0  # between lines of progress, where no status line can be drawn
_MAX_OTHERS = 3  # other failures that the last lines name
_MAX_CHARACTERS = 160  # of the message of each
_FREE_COLUMNS = 3  # at the right edge: the terminal's echo of Ctrl-C must not wrap to the next row
_ERASE = Control(ControlType.CARRIAGE_RETURN, (ControlType.ERASE_IN_LINE, 2))


@contextlib.contextmanager
def ends_as_json(wanted: bool) -> Iterator[None]:
    """If wanted, print an exception from the body to standard output too, as a line of JSON."""
    try:
        yield
    except Exception as error:
        if wanted:
            code = error.exit_code if isinstance(error, MinifyError) else ExitCode.INTERNAL
            status = code.name.lower().replace("_", "-")
            print(json.dumps({"version": 1, "status": status, "reason": str(error)}), flush=True)
        raise


def _standard_error() -> RichConsole:
    terminal = sys.stderr.isatty()
    colours: Literal["auto"] | None = "auto" if terminal and not os.environ.get("NO_COLOR") else None
    return RichConsole(file=sys.stderr, force_terminal=terminal, color_system=colours, highlight=False)


def _shares_the_terminal(progress: Progress) -> bool:
    """Whether the user's code may write to the terminal: the script, or its backend during import, before any probe."""
    return progress.phase in _USER_CODE_PHASES or (progress.phase is Phase.REDUCING and not progress.probes)


class StatusLine:
    """Draws a row at the cursor, and erases the row before other output."""

    def __init__(self, console: RichConsole) -> None:
        self._console = console
        self._drawn = ""

    def draw(self, text: str) -> None:
        """Replace the row by this text, truncated to the terminal's width."""
        line = Text(text)
        line.truncate(self._columns() - _FREE_COLUMNS)
        if line.plain == self._drawn:
            return
        self.clear()
        self._drawn = line.plain
        self._console.print(line, end="", soft_wrap=True)
        self._console.file.flush()

    def clear(self) -> None:
        """Erase the row, if drawn."""
        if self._drawn:
            self._drawn = ""
            self._console.control(_ERASE)
            self._console.file.flush()

    def _columns(self) -> int:
        """Return the terminal's current width; the environment's COLUMNS may be outdated."""
        try:
            return os.get_terminal_size(self._console.file.fileno()).columns or self._console.width
        except OSError:  # a text in memory, no terminal
            return self._console.width


class Console(Ui):
    """Writes to standard error, so that standard output stays the script's own.

    A terminal gets a status line. Elsewhere each phase gets a line, and another every `SECONDS_BETWEEN_LINES`.
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
        self._live = self._to.is_terminal and not self._to.is_dumb_terminal
        self._status = StatusLine(self._to)
        self._progress: Progress | None = None
        self._began = self._wrote = clock()

    @classmethod
    def for_options(cls, options: Options) -> Console:
        """Build the console that a command's options ask for."""
        return cls(options.quiet, options.verbose, options.json)

    def __enter__(self) -> Console:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Erase the status line, even after an exception."""
        self._status.clear()

    def _write(self, text: str, style: str = "") -> None:
        """Write lines above the status line. The terminal wraps them, so that a copy has no line breaks."""
        self._status.clear()
        self._to.print(Text(text, style=style), soft_wrap=True)
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

    def ask(self, question: str) -> bool:
        """Ask a yes-or-no question. Return False if nobody can answer, or if quiet.

        Raises KeyboardInterrupt for Ctrl-C.
        """
        if self._quiet or not self._live or not sys.stdin.isatty():
            return False
        self._status.clear()
        try:
            return click.confirm(f"minify: {question}", err=True)
        except click.Abort as abort:  # also the end of the input
            click.echo(err=True)
            if isinstance(abort.__context__, KeyboardInterrupt):
                raise KeyboardInterrupt from None
            return False

    def show(self, progress: Progress) -> None:
        """Store the progress. A new phase is shown at once, other changes with the next tick."""
        before, self._progress = self._progress, progress
        if before is None or before.phase is not progress.phase or progress.probes < before.probes:
            self._began = self._clock()
        if _shares_the_terminal(progress):
            self._status.clear()
        if before is None or before.title != progress.title:
            if not self._live or progress.phase in _USER_CODE_PHASES:
                self.say(progress.title)
            else:
                self.tick()
        if progress.probe:
            self.detail(f"probe {progress.probes}: {progress.probe}")

    def tick(self) -> None:
        """Redraw the status line. Elsewhere, write a line if the last is `SECONDS_BETWEEN_LINES` old."""
        progress = self._progress
        if self._quiet or progress is None:
            return
        line = progress.describe(self._clock() - self._began)
        if not self._live:
            if self._clock() - self._wrote >= SECONDS_BETWEEN_LINES:
                self.say(line)
        elif not _shares_the_terminal(progress):
            self._status.draw(f"minify: {line}")

    def final(self, outcome: Outcome) -> None:
        """Write the last lines: the failure, the reduction, the verification, and the repro's path."""
        failure, summary, out = outcome.case.failure, outcome.summary, outcome.folder
        lines = [(f"{outcome.case.backend.name}: {failure.sentence}", "bold")]
        if summary is not None:
            proof = outcome.proved
            if summary.stopped_because and outcome.case.level.value != "source":
                proof += f"; `minify reduce {out}` goes on"
            before = counted(outcome.size_before, outcome.parts.removesuffix("s"))
            probes = counted(summary.probes["total"], "probe")
            smaller = f"{before} -> {summary.ops_after} ({proof}) in {probes}, {outcome.total_seconds:.1f} s in all"
            lines.append((smaller, ""))
            for other in summary.others[:_MAX_OTHERS]:
                message = shorten(headline(other["message"]), _MAX_CHARACTERS, placeholder=" ...")
                which = f"raised at the same place by {counted(other['ops'], 'op')}" if other["near"] else "also met"
                where = f" in {other['where']}" if other["where"] else ""
                lines.append((f"{which}, not followed: {other['type']}{where}: {message}", ""))
                lines.append((f"  minify reduce {out / other['case']}", ""))
            if (more := len(summary.others) - _MAX_OTHERS) > 0:
                lines.append((f"{counted(more, 'other failure')} more in {out / 'others'}", ""))
        runs, agreeing = outcome.verified
        if outcome.repro is not None:
            without = "without torch.compile" if outcome.is_of_torch else "with eager"
            control = f"; {without} it passes" if outcome.passes_in_eager else ""
            lines.append((f"verified: the same failure in {agreeing} of {runs} fresh interpreters{control}", "green"))
            folders = outcome.minimal.folders if outcome.minimal is not None else ()
            if folders:
                lines.append((f"run it with PYTHONPATH={':'.join(folders)}, where the script's own modules are", ""))
            lines.append((str(out / "repro.py"), ""))
        else:
            why = f"no standalone repro: {outcome.reason}" if outcome.reason else _NO_REPRO
            lines += [(why, "yellow"), (f"what could be saved is in {out}", "")]
        for line, style in lines:
            self._write(line, style)
        if self._machine:
            print(json.dumps(json.loads((out / RESULT).read_text(encoding="utf-8"))), flush=True)
