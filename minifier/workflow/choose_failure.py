"""Choose which failing backend calls of a script are reduced."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from minifier.errors import UsageError
from minifier.process.progress import Ui

if TYPE_CHECKING:  # importing it would import torch before the arguments are checked
    from minifier.capturing.captured import Captured, FailingGraph


def choose(captured: Captured, graph: int | None, every: bool) -> tuple[FailingGraph, ...]:
    """Return the first failing graph, the failing graph number `graph`, or with `every` all failing graphs.

    Raises UsageError if graph `graph` did not fail.
    """
    failing = captured.failing
    if graph is None:
        return failing if every else failing[:1]
    candidates = (*failing, *captured.repeated)
    matches = tuple(candidate for candidate in candidates if candidate.number == graph)
    if not matches:
        numbers = ", ".join(str(number) for number in sorted({candidate.number for candidate in candidates}))
        raise UsageError(f"graph {graph} of the script did not fail; these did: {numbers}.")
    return matches[:1]


def list_failing(ui: Ui, failing: tuple[FailingGraph, ...], chosen: tuple[FailingGraph, ...]) -> None:
    """List the failing graphs if there are several, with the chosen ones marked."""
    if len(failing) > 1:
        ui.say(f"{len(failing)} backend calls failed:")
        for call in failing:
            mark = "*" if call in chosen else " "
            ui.say(f"{mark} graph {call.number}: {call.sentence}")
        if len(chosen) < len(failing):
            ui.say(f"graph {chosen[0].number} is reduced; choose another with --graph N, or take each with --all")


def call_folder(out: Path, failing: FailingGraph, chosen: Sequence[FailingGraph]) -> Path:
    """Return the sub-folder of `out` for the results of a chosen failure."""
    is_only_call = sum(call.number == failing.number for call in chosen) == 1
    return out / (f"graph-{failing.number}" if is_only_call else f"graph-{failing.number}-call-{failing.call}")
