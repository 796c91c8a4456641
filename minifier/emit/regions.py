"""Regions of a graph that a person writes as `with` blocks: the graph has calls where they begin and end."""

from __future__ import annotations

from collections.abc import Sequence

from minifier.case.graph import SET_GRAD, Graph, Node, Ref
from minifier.case.literals import literal

_ENTER = "torch.amp.autocast_mode._enter_autocast"
_EXIT = "torch.amp.autocast_mode._exit_autocast"


def _autocast(node: Node) -> str:
    device, dtype, enabled = (*node.args, None, None)[:3]  # and whether it caches, which Dynamo does not let it
    parts = [literal(device)]
    parts += [f"dtype={literal(dtype)}"] if dtype is not None else []
    parts += ["enabled=False"] if enabled is False else []
    return f"torch.autocast({', '.join(parts)})"


def regions(graph: Graph) -> dict[str, str | None]:
    """For the ops that begin a region the context that it is, for those that end one None. Regions that overlap, or
    that the graph leaves open, are none: their calls are written as they are."""
    found: dict[str, str | None] = {}
    open_: list[Node] = []
    for node in graph.ops:
        if node.target == _ENTER:
            open_.append(node)
        elif node.target == _EXIT:
            if not open_ or node.args != (Ref(open_[-1].name),):
                return {}
            begun = open_.pop()
            found |= {begun.name: _context(begun), node.name: None}
        elif node.target == SET_GRAD:
            if open_ and open_[-1].target == SET_GRAD and open_[-1].args != node.args:
                begun = open_.pop()
                found |= {begun.name: _context(begun), node.name: None}
            else:
                open_.append(node)
    return {} if open_ else found


def _context(node: Node) -> str:
    if node.target == _ENTER:
        return _autocast(node)
    (on,) = node.args
    return "torch.enable_grad()" if on else "torch.no_grad()"


def indented(lines: Sequence[tuple[int, str]]) -> list[str]:
    """Lines, each with how deep it stands; what has no other line in it gets a `pass`."""
    text: list[str] = []
    for i, (depth, line) in enumerate(lines):
        text.append("    " * depth + line)
        if line.startswith("with ") and (i + 1 == len(lines) or lines[i + 1][0] <= depth):
            text.append("    " * (depth + 1) + "pass")
    return text
