"""Inputs of which no rounding error can decide anything: steps of them must come out as in eager."""

from __future__ import annotations

from minifier.case.graph import Graph, Node
from minifier.case.in_place import is_in_place

# Ops whose result jumps at some values of their operands. `div` only with a rounding mode.
_STEP_NAMES = """
    floordiv floor_divide floor ceil trunc fix round sign sgn signbit gt ge lt le eq ne greater greater_equal less
    less_equal not_equal
"""
_STEPS = frozenset(_STEP_NAMES.split())
_DIVISIONS = ("div", "divide")

# Ops that take elements of one tensor as they are.
_MOVE_NAMES = """
    getitem view reshape flatten unflatten expand expand_as unsqueeze squeeze transpose permute movedim swapaxes t
    contiguous clone detach select narrow slice split chunk unbind flip roll
"""
_MOVES = frozenset(_MOVE_NAMES.split())


def exactly_read(graph: Graph) -> frozenset[int]:
    """Return the positions of the inputs that only steps read, with no operand that an op has rounded.

    The compiled code has these operands bit for bit. So an element on the other side of a jump is no rounding error.
    """
    if any(map(is_in_place, graph.ops)):
        return frozenset()  # a view of an input may be written to
    unrounded = {node.name for node in graph.nodes if node.op in ("placeholder", "get_attr")}
    for node in graph.ops:
        if node.short_target in _MOVES and unrounded.issuperset(node.refs()):
            unrounded.add(node.name)
    exact: set[str] = set()  # the moves and inputs that steps alone read, and the steps
    for node in reversed(graph.nodes):
        is_step = _is_step(node) and unrounded.issuperset(node.refs())
        if is_step or (node.name in unrounded and exact.issuperset(graph.users[node.name])):
            exact.add(node.name)
    return frozenset(i for i, node in enumerate(graph.placeholders) if node.name in exact)


def _is_step(node: Node) -> bool:
    if node.short_target == "round":
        return not node.kwargs and len(node.args) == 1  # with `decimals` it multiplies
    if node.short_target in _DIVISIONS:
        return node.kwargs.get("rounding_mode") is not None
    return node.short_target in _STEPS and node.is_op
