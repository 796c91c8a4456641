"""Tells guilty ops from innocent ops, whose wrong values do not affect the program's own results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from minifier.case import Case, Graph, Recorded, TensorInput
from minifier.case.graph import refs_in
from minifier.case.in_place import is_in_place
from minifier.case.ops import with_ops
from minifier.failure import Stage
from minifier.probe.evaluate import evaluate
from minifier.reduction.probe_runner import ProbeRunner

_MAX_SUSPECTS = 8


def innocent_ops(runner: ProbeRunner, case: Case, suspects: Sequence[str]) -> frozenset[str]:
    """Return the suspects whose wrong values the graph's own results do not depend on.

    Eager's values replace the values of more and more suspects, until the results are right. The guilty ops are the few
    whose replacement suffices. Ops that read a guilty op's value are not innocent. Empty if the results stay wrong."""
    replaced: tuple[str, ...] = ()
    for name in suspects[:_MAX_SUSPECTS]:
        candidate = _with_eagers_values(case, (*replaced, name))
        if candidate is None:
            continue
        replaced += (name,)
        if _is_right(runner, candidate):
            break
    else:
        return frozenset()
    guilty = replaced
    for name in reversed(replaced[:-1]):  # of an op and what reads it, the op itself stays
        fewer = tuple(other for other in guilty if other != name)
        candidate = _with_eagers_values(case, fewer)
        if candidate is not None and _is_right(runner, candidate):
            guilty = fewer
    return frozenset(replaced) - _readers(case.graph, guilty)


def _is_right(runner: ProbeRunner, candidate: Case) -> bool:
    """Return whether the results of the compiled candidate agree with eager's."""
    (result,) = runner.run([lambda: evaluate(runner.bench, candidate, Stage.COMPARE)])
    return result is not None and result["status"] == "pass"


def _readers(graph: Graph, names: Sequence[str]) -> set[str]:
    """Return these ops and all ops that depend on their values."""
    reached = set(names)
    for node in graph.ops:
        if not reached.isdisjoint(node.refs()):
            reached.add(node.name)
    return reached


def _with_eagers_values(case: Case, names: Sequence[str]) -> Case | None:
    """Return the Case with the ops' recorded values as inputs, and the same outputs; None if that is impossible."""
    outputs = set(refs_in(case.graph.output.args))
    if not outputs.isdisjoint(names) or any(is_in_place(case.graph.node(name)) for name in names):
        return None
    smaller = with_ops(case, [node.name for node in case.graph.ops if node.name not in names])
    known = {node.name for node in smaller.graph.nodes}
    values = [item for item in smaller.inputs if item.name in names]
    is_recorded = all(isinstance(value, TensorInput) and isinstance(value.source, Recorded) for value in values)
    if not is_recorded or not outputs <= known:
        return None
    return replace(smaller, graph=replace(smaller.graph, nodes=(*smaller.graph.nodes[:-1], case.graph.output)))
