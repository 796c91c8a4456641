"""The probes of a run, read from its journal."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from minifier.case.store import FORWARD
from minifier.reduction.journal import JOURNAL


@dataclass(frozen=True, slots=True)
class Probed:
    """One probe: the phase of the search, or the pass, that it belongs to; `size` is the number of ops (of lines, at
    the level of source) of what was tried."""

    step: str
    size: int
    kept: bool
    seconds: float
    elements: int | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """All probes of a phase or pass: how many there were, how many kept the failure, the size of the smallest that
    did, and its elements; None where none did."""

    name: str
    probes: int
    kept: int
    size: int | None
    elements: int | None
    seconds: float


def read_history(out: Path) -> tuple[Probed, ...]:
    """The probes of the run in this output folder, in their order; those of the graph that a backward pass belongs to
    come last. A line that was cut short is passed over."""
    found = [*_read(out / JOURNAL, ""), *_read(out / FORWARD / JOURNAL, "small module: ")]
    of_source = [probed for is_source, probed in found if is_source]  # after a graph came to nothing
    return tuple(of_source or [probed for _, probed in found])


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
    """How many numbers `0-3,7` stands for."""
    total = 0
    for part in filter(None, ranges.split(",")):
        low, _, high = part.partition("-")
        total += int(high or low) - int(low) + 1
    return total


def steps_of(history: Iterable[Probed]) -> tuple[Step, ...]:
    """The steps in the order in which they began."""
    found: dict[str, list[Probed]] = {}
    for probed in history:
        found.setdefault(probed.step, []).append(probed)
    return tuple(_step(name, probes) for name, probes in found.items())


def _step(name: str, probes: list[Probed]) -> Step:
    kept = [each for each in probes if each.kept]
    elements = [each.elements for each in kept if each.elements is not None]
    return Step(
        name,
        len(probes),
        len(kept),
        min((each.size for each in kept), default=None),
        min(elements, default=None),
        sum(each.seconds for each in probes),
    )
