"""Sizes that only running the graph tells."""

from __future__ import annotations

from dataclasses import replace

from minifier.case import Case, Node, Scalar, TensorMeta
from minifier.case.symbolic_sizes import is_unbacked_value
from minifier.fx.recorded_values import RecordedValues
from minifier.probe.evaluate import run_eagerly
from minifier.reduction.probe_runner import ProbeRunner


def with_seen_sizes(lab: ProbeRunner, case: Case) -> Case:
    """The Case with sizes and numbers that come from values of tensors as an eager run has them, so that what they
    belong to can be cut off. As it was where there are none, or where eager fails."""
    unknown = [node.name for node in case.graph.ops if is_unbacked_value(node.value)]
    if not unknown:
        return case
    folder = lab.scratch / "sizes"
    folder.mkdir(exist_ok=True)
    (result,) = lab.run([lambda: run_eagerly(lab.bench, case.graph, case.inputs, case.state, unknown, folder)])
    if result is None or result["status"] != "pass":
        return case
    seen = RecordedValues(folder)
    nodes = tuple(_seen(node, seen) if is_unbacked_value(node.value) else node for node in case.graph.nodes)
    return replace(case, graph=replace(case.graph, nodes=nodes))


def _seen(node: Node, values: RecordedValues) -> Node:
    layout, number = values.layout(node.name), values.number(node.name)
    if isinstance(node.value, TensorMeta) and layout is not None:
        return replace(node, value=replace(node.value, shape=layout[0], stride=layout[1]))
    if isinstance(node.value, Scalar) and number is not None:
        return replace(node, value=replace(node.value, value=number))
    return node
