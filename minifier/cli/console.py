"""What the user sees while a run goes on, and at its end."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from minifier.case.store import RESULT
from minifier.errors import ExitCode, MinifyError

if TYPE_CHECKING:  # importing these would import torch before the arguments are checked
    from minifier.case import Case
    from minifier.probe.judge import Judged
    from minifier.reduction.lab import Lab
    from minifier.report.outcome import Outcome

EXIT_CODE = {"reduced": ExitCode.REDUCED, "stopped": ExitCode.STOPPED, "no-repro": ExitCode.NO_REPRO}


_PROOF, _AFTER_THE_OPS = "prove", ("bodies", "parts", "simplify")  # phases


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


class Console:
    """Writes to standard error, so that standard output stays the script's own. On a terminal a line that
    is drawn over shows the progress, and each success leaves a line; elsewhere only what is final is written.
    `verbose` writes a line for each probe, `machine` the result as JSON to standard output, as its last line."""

    def __init__(self, quiet: bool = False, verbose: bool = False, machine: bool = False) -> None:
        self._quiet, self._verbose, self._machine = quiet, verbose, machine
        self._live = sys.stderr.isatty() and not quiet
        self._coloured = sys.stderr.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        self._drawn = False
        self._started = time.monotonic()
        self._smallest: int | None = None

    @classmethod
    def as_given(cls, given: dict[str, Any]) -> Console:
        """As a command's options say."""
        return cls(given["quiet"], given["verbose"], given["json"])

    def _style(self, text: str, **style: Any) -> str:
        return click.style(text, **style) if self._coloured else text

    def say(self, text: str) -> None:
        """One line."""
        if not self._quiet:
            self.clear()
            print(f"minify: {text}", file=sys.stderr, flush=True)

    def error(self, text: str) -> None:
        """What went wrong; written even when quiet."""
        self.clear()
        print(f"minify: {text}", file=sys.stderr, flush=True)

    def ask(self, question: str) -> bool:
        """A question that is answered by yes or no; no, where there is nobody to answer."""
        if not self._live or not sys.stdin.isatty():
            return False
        self.clear()
        try:
            return click.confirm(f"minify: {question}", err=True)
        except click.Abort:
            return False

    def clear(self) -> None:
        """Takes the progress line away."""
        if self._drawn:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
            self._drawn = False

    def on_probe(self, lab: Lab, phase: str, case: Case, judged: Judged) -> None:
        """Redraws the progress line."""
        ops = len(case.graph.ops)
        shown = judged.verdict.value == "SAME"
        if self._verbose:
            step = f"{phase} {lab.part}".strip()
            self.say(f"probe {lab.total}: {step}, {ops} ops: {judged.verdict.value} in {judged.seconds:.2f} s")
        if shown and (self._smallest is None or ops < self._smallest):
            if self._live and not self._verbose and self._smallest is not None:
                self.say(f"{self._smallest} ops -> {ops} ({phase}, probe {lab.total})")
            self._smallest = ops
        if not self._live:
            return
        seconds = max(time.monotonic() - self._started, 1e-3)
        left = "?" if self._smallest is None else self._smallest
        line = f"minify: {phase:<8} {left} ops left, {lab.total} probes, {lab.total / seconds:.1f} a second"
        if phase == _PROOF and self._smallest is not None:  # before it nobody knows how many there are to be found
            line += f"; at most {self._smallest} more to prove it, {self._smallest * lab.last_seconds:.0f} s"
        elif phase in _AFTER_THE_OPS:
            line += "; the ops are proved, all else is made plain"
        width = shutil.get_terminal_size().columns - 1
        print(f"\r\x1b[K{line[:width]}", end="", file=sys.stderr, flush=True)
        self._drawn = True

    def final(self, outcome: Outcome, out: Path) -> None:
        """The last lines: what failed, from how many ops to how many, how often verified, and where."""
        self.clear()
        failure, summary = outcome.case.failure, outcome.summary
        lines = [self._style(f"{outcome.case.backend.name}: {failure.fingerprint.sentence()}", bold=True)]
        if summary is not None and not summary.error:
            proof = "minimal" if summary.one_minimal else f"not proved minimal: {summary.stopped_because}"
            if summary.stopped_because and outcome.case.level.value != "source":
                proof += f"; `minify reduce {out}` goes on"
            lines.append(
                f"{summary.ops_before} {outcome.parts} -> {summary.ops_after} ({proof}) "
                f"in {summary.probes['total']} probes, {outcome.total_seconds:.1f} s in all"
            )
            lines += [
                f"also met, not followed: {o['type']}: {(o['message'].splitlines() or [''])[0]} ({o['case']})"
                for o in summary.others
            ]
        runs, agreeing = outcome.verified
        if outcome.repro is not None:
            said = f"verified: the same failure in {agreeing} of {runs} fresh interpreters"
            lines.append(self._style(said, fg="green"))
            folders = outcome.minimal.folders if outcome.minimal is not None else ()
            if folders:
                lines.append(f"run it with PYTHONPATH={':'.join(folders)}, where the script's own modules are")
            lines.append(str(out / "repro.py"))
        else:
            if not outcome.reason:
                lines.append(self._style("no standalone repro shows this failure", fg="yellow"))
            else:
                lines.append(self._style(f"no standalone repro: {outcome.reason}", fg="yellow"))
            lines.append(f"what could be saved is in {out}")
        for line in lines:
            print(line, file=sys.stderr)
        if self._machine:
            sys.stderr.flush()
            print(json.dumps(json.loads((out / RESULT).read_text(encoding="utf-8"))), flush=True)
