"""Which of the failing backend calls of a script are reduced."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from minifier.errors import UsageError
from minifier.process.progress import Ui

if TYPE_CHECKING:  # importing it would import torch before the arguments are checked
    from minifier.capturing.capture import Captured, FailingGraph


def choose(captured: Captured, graph: int | None, every: bool) -> tuple[FailingGraph, ...]:
    """The first, the one asked for, or all; raises UsageError if the one asked for did not fail."""
    failing = captured.failing
    if graph is None:
        return failing if every else failing[:1]
    found = tuple(f for f in (*failing, *captured.repeated) if f.number == graph)
    if not found:
        numbers = ", ".join(str(number) for number in sorted({f.number for f in (*failing, *captured.repeated)}))
        raise UsageError(f"graph {graph} of the script did not fail; these did: {numbers}.")
    return found[:1]


def list_failing(ui: Ui, failing: tuple[FailingGraph, ...], chosen: tuple[FailingGraph, ...]) -> None:
    """Tells of several which are reduced."""
    if len(failing) > 1:
        ui.say(f"{len(failing)} backend calls failed:")
        for each in failing:
            mark = "*" if each in chosen else " "
            ui.say(f"{mark} graph {each.number}: {each.sentence}")
        if len(chosen) < len(failing):
            ui.say("the one marked is reduced; choose another with --graph N, or take each with --all")


def call_folder(out: Path, failing: FailingGraph, chosen: Sequence[FailingGraph]) -> Path:
    """The sub-folder of `out` for the results of one of the chosen failures."""
    alone = sum(each.number == failing.number for each in chosen) == 1
    return out / (f"graph-{failing.number}" if alone else f"graph-{failing.number}-call-{failing.call}")
