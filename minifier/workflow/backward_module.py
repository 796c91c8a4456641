"""From a minimal backward graph to a small module, which a maintainer would rather read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from minifier.case import Case, Drawn, Input, Level, Node, TensorInput
from minifier.case.store import CASE, FORWARD, load, save
from minifier.errors import MinifyError, StoppedAtOnce, StoppedEarly
from minifier.reduction.summary import Summary
from minifier.settings import Settings
from minifier.workflow.attempt import Attempt, Reduced
from minifier.workflow.reduction import reduce_further

_MIN_PROBES = 16  # that a further reduction gets where the user's limits are used up


def keep_forward(captured: Path, backward: Case, place: Path) -> None:
    """Write the Case of the forward graph into `place`/forward, with the failure of its backward pass.

    Writes nothing if that graph could not be captured.
    """
    if not (captured / CASE).exists():
        return
    case = load(captured)
    failure = replace(backward.failure, hints=())
    script = replace(backward.script, graph_number=case.script.graph_number)
    inputs = case.inputs if failure.fingerprint.stage.compiles else tuple(map(_with_values, case.inputs))
    made = replace(case, failure=failure, backward=True, calls=backward.calls, script=script, inputs=inputs)
    save(made, place / FORWARD)


def _with_values(item: Input) -> Input:
    """Replace zeros by random values: a successful call leaves no inputs, and few backward passes fail on zeros."""
    floating = isinstance(item, TensorInput) and item.meta.dtype.startswith(("float", "bfloat"))
    if isinstance(item, TensorInput) and floating and item.source == Drawn("zeros"):
        return replace(item, source=Drawn("randn"))
    return item


def accused(minimal: Case, forward: Case) -> tuple[str, ...]:
    """Return the ops of the forward graph that the minimal backward graph's ops belong to, in the graph's order."""
    return _named(forward, (*minimal.graph.ops, *minimal.graph.placeholders))


def _named(forward: Case, nodes: Iterable[Node]) -> tuple[str, ...]:
    origins = {node.origin for node in nodes} - {""}
    return tuple(node.name for node in forward.graph.ops if (node.origin or node.name) in origins)


def _joined(forward: Case, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return these ops and all ops on the paths between them.

    A gradient passes unchanged through an addition, which has no op in the backward graph, and yet joins two other ops.
    """
    below, above = set(names), set(names)
    for node in forward.graph.ops:
        if below.intersection(node.refs()):
            below.add(node.name)
    for node in reversed(forward.graph.ops):
        if node.name in above:
            above.update(node.refs())
    return tuple(node.name for node in forward.graph.ops if node.name in below & above)


def limited(settings: Settings, summary: Summary) -> Settings:
    """Return the settings with the limits that a reduction has left; `_MIN_PROBES` probes after a stopped reduction."""
    if summary.stopped_because:
        return replace(settings, max_probes=_MIN_PROBES)
    budget, most = settings.budget, settings.max_probes
    return replace(
        settings,
        budget=None if budget is None else max(1.0, budget - summary.seconds),
        max_probes=None if most is None else max(_MIN_PROBES, most - summary.probes.get("total", 0)),
    )


def add_hints(folder: Path, minimal: Case) -> None:
    """Add to the forward graph's Case in `folder` the ops that the minimal backward graph accuses, to begin with."""
    forward = load(folder)
    found = (_named(forward, minimal.graph.ops), accused(minimal, forward))
    groups = [group for names in found for group in (names, _joined(forward, names))]
    hints = tuple(dict.fromkeys(group for group in groups if group))
    save(replace(forward, failure=replace(forward.failure, hints=hints)), folder)


def reduce_forward(attempt: Attempt) -> Attempt:
    """Reduce the forward graph to a small module.

    The module comes first among the candidates, the minimal backward graph second. A stopped reduction may leave a much
    larger module, which then comes second.
    """
    before, folder = attempt.reduction, attempt.folder
    attempt.run.ui.say(
        f"reduced from {before.summary.ops_before} ops to {before.summary.ops_after}; looking for a small module"
    )
    add_hints(folder.forward, before.minimal)
    rest = limited(attempt.run.settings, before.summary)
    try:
        again = reduce_further(attempt, folder.forward, folder.reduced_forward, rest)
    except StoppedAtOnce:
        raise
    except StoppedEarly as error:
        return _without_module(attempt, before, error, stopped=True)
    if again.error is not None:
        return _without_module(attempt, before, again.error)
    again = again.took("look for a small module that has the backward graph")
    summary, small = again.reduction.summary, again.reduction.minimal
    stopped = summary.stopped_because
    both = replace(
        before.summary,
        probes=add_probes(before.summary.probes, summary.probes),
        seconds=before.summary.seconds + summary.seconds,
        passes=summary.passes,
        needs=summary.needs,
        stopped_because=before.summary.stopped_because or stopped,
    )
    minimal = before.minimal
    if stopped and len(small.graph.ops) > 2 * len(minimal.graph.ops) + 2:  # the backward graph is easier to read
        return again.succeeded(Reduced(both, minimal, (minimal, small)))
    both = replace(both, inputs_after=summary.inputs_after, elements_after=summary.elements_after)
    return again.succeeded(Reduced(both, replace(minimal, needs=small.needs), (small, minimal)))


def _without_module(attempt: Attempt, before: Reduced, error: MinifyError, *, stopped: bool = False) -> Attempt:
    """Return the attempt after no forward graph showed the failure of the reduced backward graph."""
    attempt.run.ui.say(f"there is none: {error}")
    summary = before.summary
    if stopped:
        summary = replace(summary, stopped_because=summary.stopped_because or "interrupted")
    return replace(attempt, reduced=replace(before, summary=summary))


def add_probes(first: dict[str, int], second: dict[str, int]) -> dict[str, int]:
    """Add numbers of probes, by verdict."""
    return {verdict: first.get(verdict, 0) + second.get(verdict, 0) for verdict in first | second}


def has_only_backward(attempt: Attempt) -> bool:
    """Whether a backward graph alone shows the failure so far."""
    reduced = attempt.reduced
    return (
        reduced is not None and reduced.minimal.level is Level.AOT_BACKWARD and reduced.candidates == (reduced.minimal,)
    )


def simplify_backward(attempt: Attempt) -> Attempt:
    """Simplify the minimal backward graph itself, which the user reads if there is no small module."""
    before, folder = attempt.reduction.summary, attempt.folder
    if before.stopped_because:
        return attempt
    attempt.run.ui.say("simplifying sizes, dtypes and arguments of the backward graph itself")
    with folder.scratch("simplified") as place:
        try:
            again = reduce_further(attempt, folder.minimal, place, limited(attempt.run.settings, before))
        except StoppedAtOnce:
            raise
        except StoppedEarly as error:
            again = attempt.failed(error)
        if again.error is not None:
            attempt.run.ui.say(f"the backward graph is not simplified: {again.error}")
            return attempt
        save(again.reduction.minimal, folder.minimal)
    summary = again.reduction.summary
    summary = replace(
        summary,
        ops_before=before.ops_before,
        probes=add_probes(before.probes, summary.probes),
        seconds=before.seconds + summary.seconds,
        others=before.others,
    )
    minimal = load(folder.minimal)  # its tensors are not in the folder that is removed
    return again.succeeded(Reduced(summary, minimal, (minimal,))).took("simplify the backward graph itself")
