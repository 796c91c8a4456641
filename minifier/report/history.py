"""Read the probes of a run from its journal."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from minifier.case.store import FORWARD
from minifier.reduction.journal import JOURNAL


@dataclass(frozen=True, slots=True)
class Probed:
    """A probe. `step` is its phase or pass; `size` counts the candidate's ops, or at source level its lines."""

    step: str
    size: int
    kept: bool
    seconds: float
    elements: int | None = None


@dataclass(frozen=True, slots=True)
class HistoryStep:
    """All probes of a phase or pass. `kept` counts the probes that showed the failure.

    `size` and `elements` are the minimum over these probes, None without any.
    """

    name: str
    probes: int
    kept: int
    size: int | None
    elements: int | None
    seconds: float


def read_history(out: Path) -> tuple[Probed, ...]:
    """Return the probes of the run in this output folder, in order. Incomplete lines are skipped.

    Probes of a backward pass's forward module come last.
    """
    probes = [*_read(out / JOURNAL, ""), *_read(out / FORWARD / JOURNAL, "small module: ")]
    of_source = [probed for is_source, probed in probes if is_source]  # made if no graph could be reduced
    return tuple(of_source or [probed for _, probed in probes])


def _read(path: Path, prefix: str) -> Iterable[tuple[bool, Probed]]:
    if not path.exists():
        return
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            entry = json.loads(line)
            if "verdict" not in entry:
                continue
            size = entry["lines"] if "lines" in entry else _count(entry["ops"])
            step = prefix + (entry.get("pass") or entry["phase"])
            kept = entry["verdict"] == "SAME"
            yield "lines" in entry, Probed(step, size, kept, float(entry["seconds"]), entry.get("elements"))
        except (ValueError, KeyError, TypeError, AttributeError):
            continue


def _count(ranges: str) -> int:
    """Count the numbers in ranges like `0-3,7`."""
    total = 0
    for part in filter(None, ranges.split(",")):
        low, _, high = part.partition("-")
        total += int(high or low) - int(low) + 1
    return total


def steps_of(history: Iterable[Probed]) -> tuple[HistoryStep, ...]:
    """Return the steps in the order in which they began."""
    probes_of: dict[str, list[Probed]] = {}
    for probed in history:
        probes_of.setdefault(probed.step, []).append(probed)
    return tuple(_step(name, probes) for name, probes in probes_of.items())


def _step(name: str, probes: list[Probed]) -> HistoryStep:
    failing = [probed for probed in probes if probed.kept]
    elements = [probed.elements for probed in failing if probed.elements is not None]
    return HistoryStep(
        name,
        len(probes),
        len(failing),
        min((probed.size for probed in failing), default=None),
        min(elements, default=None),
        sum(probed.seconds for probed in probes),
    )
