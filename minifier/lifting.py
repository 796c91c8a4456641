"""From a minimal backward graph of AOTAutograd's to a small module: what a maintainer would rather read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from minifier.case import Case
from minifier.case.store import CASE, load, save
from minifier.reduction.stage import Summary

FORWARD = "forward"  # the folder, below a backward graph's Case, of the Case of Dynamo's graph that it belongs to


def keep_forward(captured: Path, backward: Case, place: Path) -> None:
    """Writes the Case of Dynamo's graph into `place`, with the failure of its backward pass."""
    case = load(captured)
    failure = replace(backward.failure, hints=())
    script = replace(backward.script, graph_number=case.script.graph_number)
    save(replace(case, failure=failure, backward=True, calls=backward.calls, script=script), place / FORWARD)


def is_lifting(out: Path) -> bool:
    """Whether the Case in out/case is of a backward graph, with the graph beside it that it belongs to."""
    return (out / "case" / FORWARD / CASE).exists()


def accused(minimal: Case, forward: Case) -> tuple[str, ...]:
    """The ops of Dynamo's graph that the ops left of the backward graph belong to, in the graph's order."""
    origins = {node.origin for node in (*minimal.graph.ops, *minimal.graph.placeholders)}
    return tuple(node.name for node in forward.graph.ops if node.name in origins)


def lift(place: Path, minimal: Case | None, reduce: Callable[[Path], Summary]) -> Summary:
    """Reduces the Case in `place`/forward, beginning with the ops that the minimal backward graph accuses.

    `reduce(folder)` reduces the Case in `folder`; a summary with an error says that this did not work.
    """
    folder = place / FORWARD
    forward = load(folder)
    if minimal is not None:
        ops = {node.name: node.origin for node in minimal.graph.ops}
        groups = (
            tuple(node.name for node in forward.graph.ops if node.name in set(ops.values())),
            accused(minimal, forward),
        )
        hints = tuple(dict.fromkeys(group for group in groups if group))
        save(replace(forward, failure=replace(forward.failure, hints=hints)), folder)
    return reduce(folder)
