"""Read the probes of a run from its journal."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from minifier.data.case.files import read_lines
from minifier.data.case.run_folder import RunFolder
from minifier.data.case.serial import parsed, unpack
from minifier.data.fields import MAX_SECONDS, MAX_SIZE, between

_MAX_OPS = 10**7  # of a graph, and lines of a script; a journal that counts more is not ours


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
    """Return the probes of the run in this output folder, in order. Incomplete lines are skipped."""
    probes = list(_read(RunFolder(out).journal))
    of_source = [probed for is_source, probed in probes if is_source]  # made if no graph could be reduced
    return tuple(of_source or [probed for _, probed in probes])


def _read(path: Path) -> Iterable[tuple[bool, Probed]]:
    for line in read_lines(path):
        try:
            entry = parsed(line)
            if "verdict" not in entry:
                continue
            size = unpack(int, entry["lines"]) if "lines" in entry else unpack(int, entry["ops"])
            step = unpack(str, entry.get("pass") or entry["phase"])
            seconds, elements = unpack(float, entry["seconds"]), unpack(int | None, entry.get("elements"))
            _of_a_probe(size, seconds, elements)
            yield "lines" in entry, Probed(step, size, entry["verdict"] == "SAME", float(seconds), elements)
        except (ValueError, KeyError, TypeError, AttributeError):
            continue


def _of_a_probe(size: int, seconds: float, elements: int | None) -> None:
    """Raise ValueError for numbers that no probe has: they would spoil the report's pictures and tables."""
    between(0, _MAX_OPS)(size)
    between(0, MAX_SECONDS)(seconds)
    between(0, MAX_SIZE)(elements)


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
