"""The summary of a reduction, handed from its process to the main process."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from minifier.case.encode import pack, unpack
from minifier.case.store import write_atomically


@dataclass(frozen=True, slots=True)
class Summary:
    """The result of a reduction in numbers and sentences; stored as summary.json next to the minimal Case.

    `unanswered` is the number of candidates in the proof that gave no answer, however often they were asked.
    """

    ops_before: int
    ops_after: int
    inputs_after: int
    elements_after: int
    probes: dict[str, int]
    one_minimal: bool
    stopped_because: str
    seconds: float
    others: tuple[dict[str, Any], ...] = ()
    notes: tuple[str, ...] = ()
    parting: tuple[tuple[str, str], ...] = ()
    passes: dict[str, str] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    backends: tuple[tuple[str, str], ...] = ()
    unanswered: int = 0

    @property
    def unfinished(self) -> tuple[str, ...]:
        """Return the passes that a budget or an interruption ended."""
        return tuple(name for name, end in self.passes.items() if end == "unfinished")

    @classmethod
    def read(cls, folder: Path) -> Summary:
        """Read summary.json."""
        summary: Summary = unpack(cls, json.loads((folder / "summary.json").read_text(encoding="utf-8")))
        return summary


def write_summary(folder: Path, summary: Summary) -> None:
    """Write summary.json."""
    write_atomically(folder / "summary.json", json.dumps(pack(summary), indent=1) + "\n")
