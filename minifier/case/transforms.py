"""The ops that begin and end torch.func's transforms, and the values that exist only within a transform."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from minifier.interfaces.names import (
    BEGIN_CONTEXT,
    BEGIN_LEVEL,
    END_CONTEXT,
    END_LEVEL,
    LEAVE_LEVEL,
    MODULES_OF_TRANSFORMS,
)

if TYPE_CHECKING:
    from minifier.case.graph import Node

BEGIN, END = BEGIN_LEVEL | BEGIN_CONTEXT, END_LEVEL | END_CONTEXT


def is_of_transform(node: Node) -> bool:
    """Whether the op is a transform's own: its levels, dual numbers and batch dimensions."""
    return node.is_op and node.target.startswith(MODULES_OF_TRANSFORMS)


def wrapped_values(nodes: Iterable[Node]) -> frozenset[str]:
    """Return the names of the nodes whose values a transform wraps. Wrapped values cannot be results of the graph."""
    wrapped, depth = set(), 0
    for node in nodes:
        target = node.short_target
        depth += (target in BEGIN_LEVEL) - (target in END_LEVEL)
        # The level is the second argument of these ops.
        left = target in LEAVE_LEVEL and len(node.args) > 1 and node.args[1] == 1
        if depth > 0 and not left:
            wrapped.add(node.name)
    return frozenset(wrapped)
