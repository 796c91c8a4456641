"""What the user sees while a run goes on, and at its end."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from minifier.errors import ExitCode

if TYPE_CHECKING:  # importing these would import torch before the arguments are checked
    from minifier.case import Case
    from minifier.probe.judge import Judged
    from minifier.reduction.lab import Lab
    from minifier.report.outcome import Outcome

EXIT_CODE = {"reduced": ExitCode.REDUCED, "stopped": ExitCode.STOPPED, "no-repro": ExitCode.NO_REPRO}


class Console:
    """Writes to standard error, so that standard output stays the script's own. On a terminal a line that
    is drawn over shows the progress; elsewhere only what is final is written."""

    def __init__(self, quiet: bool = False) -> None:
        self._quiet = quiet
        self._live = sys.stderr.isatty() and not quiet
        self._drawn = False
        self._started = time.monotonic()
        self._smallest: int | None = None

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
        if not self._live:
            return
        if judged.verdict.value == "SAME":
            ops = len(case.graph.ops)
            self._smallest = ops if self._smallest is None else min(self._smallest, ops)
        rate = lab.total / max(time.monotonic() - self._started, 1e-3)
        left = "?" if self._smallest is None else self._smallest
        line = f"minify: {phase:<8} {left} ops left, {lab.total} probes, {rate:.1f} a second"
        print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)
        self._drawn = True

    def final(self, outcome: Outcome, out: Path) -> None:
        """The last lines: what failed, from how many ops to how many, how often verified, and where."""
        self.clear()
        failure, summary = outcome.case.failure, outcome.summary
        lines = [f"{outcome.case.backend.name}: {failure.fingerprint.sentence()}"]
        if summary is not None and not summary.error:
            proof = "minimal" if summary.one_minimal else f"not proved minimal: {summary.stopped_because}"
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
            lines.append(f"verified: the same failure in {agreeing} of {runs} fresh interpreters")
            folders = outcome.minimal.folders if outcome.minimal is not None else ()
            if folders:
                lines.append(f"run it with PYTHONPATH={':'.join(folders)}, where the script's own modules are")
            lines.append(str(out / "repro.py"))
        else:
            if not outcome.reason:
                lines.append("no standalone repro shows this failure")
            else:
                lines.append(f"no standalone repro: {outcome.reason}")
            lines.append(f"what could be saved is in {out}")
        for line in lines:
            print(line, file=sys.stderr)
