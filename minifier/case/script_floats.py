"""Floats of the script that Dynamo passes in tensors: with dynamic shapes, or where a float varies between calls."""

from __future__ import annotations

from minifier.case.case import Case
from minifier.case.expressions import is_unbacked
from minifier.case.graph import Node
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


def floats_in_tensors(case: Case) -> dict[str, float]:
    """Return the script's floats that are in tensors, by the names of these inputs."""
    if case.symbolic is None:
        return {}
    floats: dict[str, float] = {}
    for item in case.inputs:
        users = [case.graph.node(name) for name in case.graph.users[item.name]]
        if isinstance(item, TensorInput) and users and all(map(reads_float, users)):
            floats[item.name] = users[0].value.value  # type: ignore[union-attr, assignment]
    return floats
