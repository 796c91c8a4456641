"""What the user sees while a run goes on, and at its end."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Literal

import click
from rich.console import Console as RichConsole
from rich.text import Text

from minifier.case.store import RESULT
from minifier.cli.options import Options
from minifier.cli.status_line import StatusLine
from minifier.errors import ExitCode, MinifyError
from minifier.process.progress import Phase, Progress, Ui, counted

if TYPE_CHECKING:  # importing it would import torch before the arguments are checked
    from minifier.report.outcome import Outcome

EXIT_CODE = {"reduced": ExitCode.REDUCED, "stopped": ExitCode.STOPPED, "no-repro": ExitCode.NO_REPRO}
_OF_THE_USER = (Phase.SCRIPT, Phase.REPLAY)  # in which code of the user's may write to the terminal
_NO_REPRO = "no standalone repro shows this failure"
SECONDS_BETWEEN_LINES = 10.0  # where no status line can be drawn: the longest silence, and the shortest


@contextlib.contextmanager
def ends_as_json(wanted: bool) -> Iterator[None]:
    """Within it, what ends a run without a result is written to standard output as well, as one line of JSON."""
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
    """Whether code of the user's may write to the terminal: the script, or a backend while it is imported, which is
    before the first probe."""
    return progress.phase in _OF_THE_USER or (progress.phase is Phase.REDUCING and not progress.probes)


class Console(Ui):
    """Writes to standard error, so that standard output stays the script's own. On a terminal a status line shows the
    progress. Elsewhere each phase is a line, and another one follows every `SECONDS_BETWEEN_LINES` that it lasts.
    `verbose` writes a line for each probe, `machine` the result as JSON to standard output, as its last line."""

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
        """As a command's options have it."""
        return cls(options.quiet, options.verbose, options.json)

    def __enter__(self) -> Console:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Erase the status line, however the run has ended."""
        self._status.clear()

    def _write(self, text: str, style: str = "") -> None:
        """Write whole lines above the status line; the terminal wraps them, so that they can be copied."""
        self._status.clear()
        self._to.print(Text(text, style=style), soft_wrap=True)
        self._to.file.flush()
        self._wrote = self._clock()

    def say(self, text: str) -> None:
        """One line."""
        if not self._quiet:
            self._write(f"minify: {text}")

    def detail(self, text: str) -> None:
        """One line, if the user wants every detail."""
        if self._verbose:
            self.say(text)

    def error(self, text: str) -> None:
        """What went wrong; written even when quiet."""
        self._write(f"minify: {text}")

    def ask(self, question: str) -> bool:
        """A question that is answered by yes or no; no, where there is nobody to answer."""
        if self._quiet or not self._live or not sys.stdin.isatty():
            return False
        self._status.clear()
        try:
            return click.confirm(f"minify: {question}", err=True)
        except click.Abort:
            return False

    def show(self, progress: Progress) -> None:
        """Take in how far the run has come. A new phase is seen at once, all else with the next tick."""
        before, self._progress = self._progress, progress
        if before is None or before.phase is not progress.phase or progress.probes < before.probes:
            self._began = self._clock()
        if _shares_the_terminal(progress):
            self._status.clear()
        if before is None or before.title != progress.title:
            if not self._live or progress.phase in _OF_THE_USER:
                self.say(progress.title)
            else:
                self.tick()
        if progress.probe:
            self.detail(f"probe {progress.probes}: {progress.probe}")

    def tick(self) -> None:
        """Draw the status line anew; elsewhere write a line, if the last one is long ago."""
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
        """The last lines: what failed, from how many ops to how many, how often verified, and where."""
        failure, summary, out = outcome.case.failure, outcome.summary, outcome.folder
        lines = [(f"{outcome.case.backend.name}: {failure.fingerprint.sentence()}", "bold")]
        if summary is not None:
            proof = "minimal" if summary.one_minimal else f"not proved minimal: {summary.stopped_because}"
            if summary.stopped_because and outcome.case.level.value != "source":
                proof += f"; `minify reduce {out}` goes on"
            before = counted(summary.ops_before, outcome.parts.removesuffix("s"))
            probes = counted(summary.probes["total"], "probe")
            smaller = f"{before} -> {summary.ops_after} ({proof}) in {probes}, {outcome.total_seconds:.1f} s in all"
            lines.append((smaller, ""))
            lines += [
                (f"also met, not followed: {o['type']}: {(o['message'].splitlines() or [''])[0]} ({o['case']})", "")
                for o in summary.others
            ]
        runs, agreeing = outcome.verified
        if outcome.repro is not None:
            lines.append((f"verified: the same failure in {agreeing} of {runs} fresh interpreters", "green"))
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
