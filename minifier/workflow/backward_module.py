"""From a minimal backward graph of AOTAutograd's to a small module: what a maintainer would rather read."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from minifier.case import Case, Drawn, Input, Node, TensorInput
from minifier.case.store import CASE, FORWARD, load, save
from minifier.reduction.summary import Summary
from minifier.settings import Settings

_FEW = 16  # probes, where the user has had enough of reducing


def keep_forward(captured: Path, backward: Case, place: Path) -> None:
    """Writes the Case of Dynamo's graph into `place`, with the failure of its backward pass; nothing if that graph
    could not be written down."""
    if not (captured / CASE).exists():
        return
    case = load(captured)
    failure = replace(backward.failure, hints=())
    script = replace(backward.script, graph_number=case.script.graph_number)
    inputs = case.inputs if failure.fingerprint.stage.compiles else tuple(map(_with_values, case.inputs))
    made = replace(case, failure=failure, backward=True, calls=backward.calls, script=script, inputs=inputs)
    save(made, place / FORWARD)


def _with_values(item: Input) -> Input:
    """The call of the forward graph went well, and its inputs were not kept: of zeros few backward passes fail."""
    floating = isinstance(item, TensorInput) and item.meta.dtype.startswith(("float", "bfloat"))
    if isinstance(item, TensorInput) and floating and item.source == Drawn("zeros"):
        return replace(item, source=Drawn("randn"))
    return item


def is_lifting(out: Path) -> bool:
    """Whether the Case in out/case is of a backward graph, with the graph beside it that it belongs to."""
    return (out / "case" / FORWARD / CASE).exists()


def accused(minimal: Case, forward: Case) -> tuple[str, ...]:
    """The ops of Dynamo's graph that the ops left of the backward graph belong to, in the graph's order."""
    return _named(forward, (*minimal.graph.ops, *minimal.graph.placeholders))


def _named(forward: Case, nodes: Iterable[Node]) -> tuple[str, ...]:
    origins = {node.origin for node in nodes} - {""}
    return tuple(node.name for node in forward.graph.ops if (node.origin or node.name) in origins)


def _joined(forward: Case, names: tuple[str, ...]) -> tuple[str, ...]:
    """These ops with those on the ways between them: a gradient goes unchanged through an addition, which has no op in
    the backward graph then, but is what two others have it in common by."""
    below, above = set(names), set(names)
    for node in forward.graph.ops:
        if below.intersection(node.refs()):
            below.add(node.name)
    for node in reversed(forward.graph.ops):
        if node.name in above:
            above.update(node.refs())
    return tuple(node.name for node in forward.graph.ops if node.name in below & above)


def limited(settings: Settings, summary: Summary) -> Settings:
    """What the user asked for, less what the reduction so far has used of it; little, if that was stopped."""
    if summary.stopped_because:
        return replace(settings, max_probes=_FEW)
    budget, most = settings.budget, settings.max_probes
    return replace(
        settings,
        budget=None if budget is None else max(1.0, budget - summary.seconds),
        max_probes=None if most is None else max(_FEW, most - summary.probes.get("total", 0)),
    )


def lift(place: Path, minimal: Case | None, reduce: Callable[[Path], Summary]) -> Summary:
    """Reduces the Case in `place`/forward, beginning with the ops that the minimal backward graph accuses.

    `reduce(folder)` reduces the Case in `folder`; a summary with an error says that this did not work.
    """
    folder = place / FORWARD
    forward = load(folder)
    if minimal is not None:
        found = (_named(forward, minimal.graph.ops), accused(minimal, forward))
        groups = [group for names in found for group in (names, _joined(forward, names))]
        hints = tuple(dict.fromkeys(group for group in groups if group))
        save(replace(forward, failure=replace(forward.failure, hints=hints)), folder)
    return reduce(folder)
