"""Floats of the script that Dynamo passes in tensors: with dynamic shapes, or where a float varies between calls."""

from __future__ import annotations

from minifier.case.case import Case
from minifier.case.expressions import is_unbacked
from minifier.case.graph import Graph, Node
from minifier.case.inputs import TensorInput
from minifier.case.values import Scalar, Value


def is_known_float(value: Value) -> bool:
    """Tell whether the value is a float that Dynamo knows as it traces: one of the script's, not of a tensor's."""
    if not isinstance(value, Scalar) or type(value.value) is not float:
        return False
    return value.symbol is None or not is_unbacked(value.symbol)


def reads_float(node: Node) -> bool:
    """Tell whether the op reads a float of the script's from the tensor that has it."""
    return (node.op, node.target) == ("call_method", "item") and is_known_float(node.value)


def floats_read(graph: Graph) -> dict[str, Scalar]:
    """Return the script's floats that the graph reads from its inputs, by the names of these."""
    floats: dict[str, Scalar] = {}
    for placeholder in graph.placeholders:
        users = [graph.node(name) for name in graph.users[placeholder.name]]
        if users and all(map(reads_float, users)):
            floats[placeholder.name] = users[0].value  # type: ignore[assignment]
    return floats


def floats_in_tensors(case: Case) -> dict[str, Scalar]:
    """Return the script's floats that are in tensors, by the names of these inputs."""
    if case.symbolic is None:
        return {}
    tensors = {item.name for item in case.inputs if isinstance(item, TensorInput)}
    return {name: value for name, value in floats_read(case.graph).items() if name in tensors}
