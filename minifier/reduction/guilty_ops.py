"""Tells wrong values that make the program's own results wrong from wrong values that its results do not depend on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from minifier.case import Case, Recorded, TensorInput
from minifier.case.graph import refs_in
from minifier.case.in_place import is_in_place
from minifier.case.ops import with_ops
from minifier.failure import Stage
from minifier.probe.evaluate import evaluate
from minifier.reduction.probe_runner import ProbeRunner

_MAX_SUSPECTS = 8


def innocent_ops(runner: ProbeRunner, case: Case, suspects: Sequence[str]) -> frozenset[str]:
    """Return the suspects ahead of the first guilty one: eager's value in their place leaves the results wrong.

    A suspect is guilty if eager's value in its place makes the graph's own results right. Empty if none is guilty:
    several faults together may then make the results wrong."""
    innocent: set[str] = set()
    for name in suspects[:_MAX_SUSPECTS]:
        candidate = _with_eagers_value(case, name)
        if candidate is None:
            continue
        (result,) = runner.run([lambda candidate=candidate: evaluate(runner.bench, candidate, Stage.COMPARE)])  # type: ignore[misc]
        if result is not None and result["status"] == "pass":
            return frozenset(innocent)
        if result is not None and "differences" in result:
            innocent.add(name)
    return frozenset()


def _with_eagers_value(case: Case, name: str) -> Case | None:
    """Return the Case with the op's recorded value as an input, and the same outputs; None if that is impossible."""
    outputs = set(refs_in(case.graph.output.args))
    if name in outputs or is_in_place(case.graph.node(name)):
        return None
    smaller = with_ops(case, [node.name for node in case.graph.ops if node.name != name])
    known = {node.name for node in smaller.graph.nodes}
    value = next((item for item in smaller.inputs if item.name == name), None)
    is_recorded = isinstance(value, TensorInput) and isinstance(value.source, Recorded)
    if not is_recorded or not outputs <= known:
        return None
    return replace(smaller, graph=replace(smaller.graph, nodes=(*smaller.graph.nodes[:-1], case.graph.output)))
