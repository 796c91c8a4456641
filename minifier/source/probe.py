"""Probe a candidate's source in a child process that runs it as a script."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from minifier.failure import Fingerprint, Verdict
from minifier.failure.observed import describe, text
from minifier.fx.script_definitions import define
from minifier.probe.children import ChildEnd, run_children
from minifier.probe.life import Limits, imports_told
from minifier.probe.prepared_case import preload
from minifier.probe.verdicts import Judged, judge
from minifier.process.progress import Phase, Progress, counted

_FIRST_TIMEOUT_SECONDS = 300.0  # before any run time is known
_MIN_TIMEOUT_SECONDS = 5.0
_TIMEOUT_FACTOR = 10  # of the slowest failing run


def run_source(source: str, *, compiled: bool = True) -> dict[str, Any]:
    """Run the source as `__main__`, and return its exception or {"status": "pass"}, also for SystemExit.

    `compiled=False` makes torch.compile run everything in eager mode.
    """
    with imports_told():
        return _run(source, compiled=compiled)


def _run(source: str, *, compiled: bool) -> dict[str, Any]:
    sys.argv = ["repro.py"]
    if not compiled:
        torch.compiler.set_stance("force_eager")
    try:
        with contextlib.suppress(SystemExit):
            define(source)
    except BaseException as error:  # noqa: BLE001 - any exception is a result
        return {"status": "fail", "stage": "compile", "links": describe(error), "traceback": text(error)}
    return {"status": "pass"}


@dataclass
class SourceLab:
    """Probes each source text once, in a child process. The file `journal` gets a line for each probe.

    A definition whose text is in `whole` is kept unchanged or removed as a whole.
    """

    scratch: Path
    journal: Path
    sought: Fingerprint
    match: str | None = None
    memory: int | None = None
    timeout: float | None = None
    workers: int = 1
    whole: tuple[str, ...] = ()
    phase: str = "check"
    show: Callable[[Progress], None] = lambda _: None
    counts: dict[Verdict, int] = field(default_factory=lambda: dict.fromkeys(Verdict, 0))
    _fails: dict[str, bool] = field(default_factory=dict)  # by source text: it shows the sought failure
    _slowest_seconds: float = 0.0
    _fewest_lines: int | None = None

    @property
    def total(self) -> int:
        """The number of probes."""
        return sum(self.counts.values())

    def _limits(self) -> Limits:
        expected = _TIMEOUT_FACTOR * self._slowest_seconds if self._slowest_seconds else _FIRST_TIMEOUT_SECONDS
        return Limits(self.timeout or max(_MIN_TIMEOUT_SECONDS, expected), self.memory)

    def run(self, source: str, *, compiled: bool = True) -> ChildEnd:
        """Run the source in a child without counting a probe; load here the modules that the child loaded."""
        (end,) = run_children([lambda: run_source(source, compiled=compiled)], self._limits(), self.scratch)
        preload(end.loaded)
        return end

    def holds(self, sources: Sequence[str]) -> list[bool]:
        """Return for each text whether it shows the sought failure. New texts are probed in parallel."""
        new = [text for text in dict.fromkeys(sources) if text not in self._fails]
        jobs: list[Callable[[], dict[str, Any]]] = [lambda s=s: run_source(s) for s in new]  # type: ignore[misc]
        for source, end in zip(new, run_children(jobs, self._limits(), self.scratch), strict=True):
            judged = judge(end, self.sought, (), self.match)
            self._fails[source] = judged.verdict is Verdict.SAME
            self._record(source, judged)
        return [self._fails[source] for source in sources]

    def _record(self, source: str, judged: Judged) -> None:
        self.counts[judged.verdict] += 1
        verdict, seconds, lines = judged.verdict.value, judged.seconds, len(source.splitlines())
        if judged.verdict is Verdict.SAME:
            self._slowest_seconds = max(self._slowest_seconds, seconds)
            self._fewest_lines = min(lines, self._fewest_lines or lines)
        probe = f"{self.phase}, {counted(lines, 'line')}: {verdict} in {seconds:.2f} s"
        size = self._fewest_lines
        self.show(Progress(Phase.REDUCING, step=self.phase, size=size, unit="line", probes=self.total, probe=probe))
        entry = {"phase": self.phase, "lines": lines, "verdict": verdict, "seconds": round(seconds, 4)}
        with self.journal.open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")
