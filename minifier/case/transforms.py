"""The ops that begin and end torch.func's transforms, and the values that exist only within a transform."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from minifier.case.graph import Node

_LEVEL_BEGIN = {
    "_vmap_increment_nesting",
    "_grad_increment_nesting",
    "_jvp_increment_nesting",
}
_LEVEL_END = {
    "_vmap_decrement_nesting",
    "_grad_decrement_nesting",
    "_jvp_decrement_nesting",
}
BEGIN = {*_LEVEL_BEGIN, "_saved_tensors_hooks_disable", "_enter_dual_level"}
END = {*_LEVEL_END, "_saved_tensors_hooks_enable", "_exit_dual_level"}
_LEAVES_LEVEL = {"_remove_batch_dim", "_unwrap_for_grad"}  # the level is their second argument
_MODULES = ("torch._functorch.", "torch._C._functorch.")


def is_of_transform(node: Node) -> bool:
    """Whether the op is a transform's own: its levels, dual numbers and batch dimensions."""
    return node.is_op and node.target.startswith(_MODULES)


def wrapped_values(nodes: Iterable[Node]) -> frozenset[str]:
    """Return the names of the nodes whose values a transform wraps. Wrapped values cannot be results of the graph."""
    wrapped, depth = set(), 0
    for node in nodes:
        target = node.short_target
        depth += (target in _LEVEL_BEGIN) - (target in _LEVEL_END)
        left = target in _LEAVES_LEVEL and len(node.args) > 1 and node.args[1] == 1
        if depth > 0 and not left:
            wrapped.add(node.name)
    return frozenset(wrapped)
