"""Runs a candidate's source in a child, as the script that it comes from was run."""

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

_LEAST = 5.0  # seconds


def run_source(source: str, *, compiled: bool = True) -> dict[str, Any]:
    """Runs the source as `__main__`: {"status": "pass"}, also where it ends itself, or what it raised. With `compiled`
    off Dynamo leaves everything to eager."""
    with imports_told():
        return _run(source, compiled=compiled)


def _run(source: str, *, compiled: bool) -> dict[str, Any]:
    sys.argv = ["repro.py"]
    if not compiled:
        torch.compiler.set_stance("force_eager")
    try:
        with contextlib.suppress(SystemExit):
            define(source)
    except BaseException as error:  # noqa: BLE001 - whatever it raises is what is looked at
        return {"status": "fail", "stage": "compile", "links": describe(error), "traceback": text(error)}
    return {"status": "pass"}


@dataclass
class SourceLab:
    """Tries source texts in children, each text once. `journal` gets a line for each probe. Definitions whose text is
    among the `whole` ones stay as they are, or go."""

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
    _known: dict[str, bool] = field(default_factory=dict)
    _seconds: float = 0.0
    _smallest: int | None = None

    @property
    def total(self) -> int:
        """Probes made."""
        return sum(self.counts.values())

    def _limits(self) -> Limits:
        slow = 10 * self._seconds if self._seconds else 300.0
        return Limits(self.timeout or max(_LEAST, slow), self.memory)

    def run(self, source: str, *, compiled: bool = True) -> ChildEnd:
        """How the source ends; no probe."""
        (ended,) = run_children([lambda: run_source(source, compiled=compiled)], self._limits(), self.scratch)
        preload(ended.loaded)
        return ended

    def holds(self, sources: Sequence[str]) -> list[bool]:
        """Whether each of the texts fails in the way that is sought; they are tried at once."""
        new = [text for text in dict.fromkeys(sources) if text not in self._known]
        jobs: list[Callable[[], dict[str, Any]]] = [lambda s=s: run_source(s) for s in new]  # type: ignore[misc]
        for source, ended in zip(new, run_children(jobs, self._limits(), self.scratch), strict=True):
            judged = judge(ended, self.sought, (), self.match)
            self._known[source] = judged.verdict is Verdict.SAME
            self._note(source, judged)
        return [self._known[source] for source in sources]

    def _note(self, source: str, judged: Judged) -> None:
        self.counts[judged.verdict] += 1
        if judged.verdict is Verdict.SAME:
            self._seconds = max(self._seconds, judged.seconds)
        lines = len(source.splitlines())
        if judged.verdict is Verdict.SAME:
            self._smallest = min(lines, self._smallest or lines)
        probe = f"{self.phase}, {counted(lines, 'line')}: {judged.verdict.value} in {judged.seconds:.2f} s"
        self.show(
            Progress(Phase.REDUCING, step=self.phase, size=self._smallest, unit="line", probes=self.total, probe=probe)
        )
        line = {
            "phase": self.phase,
            "lines": lines,
            "verdict": judged.verdict.value,
            "seconds": round(judged.seconds, 4),
        }
        with self.journal.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
