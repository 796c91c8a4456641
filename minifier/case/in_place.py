"""Ops that change an argument."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from minifier.case.graph import Node

_IN_PLACE_OPERATORS = {
    f"operator.{name}"
    for name in (
        *("setitem", "delitem", "iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow", "imatmul"),
        *("iand", "ior", "ixor", "ilshift", "irshift"),
    )
}


def is_in_place(node: Node) -> bool:
    """Tell whether the op changes an argument, judging by torch's naming conventions."""
    if node.target in _IN_PLACE_OPERATORS or "out" in node.kwargs or node.kwargs.get("inplace") is True:
        return True
    if node.target.startswith("operator."):  # and_, or_, not_ are not in place
        return False
    name = node.short_target
    return node.is_op and name.endswith("_") and not name.endswith("__") and name != "_"
