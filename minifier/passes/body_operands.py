"""Removal of operands that a higher-order op passes to its bodies and that no body reads."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from minifier.case import Case, Graph, Node
from minifier.interfaces.names import CHECKPOINT, COND, REGION
from minifier.passes.edits import Edit, Pass, Row, row
from minifier.passes.operands import pruned

_BODY_POSITIONS = {COND: (1, 2), CHECKPOINT: (0,), REGION: (0,)}  # among the arguments


def _operands(node: Node) -> tuple[Any, ...]:
    """Return the operands that a higher-order op passes to its bodies."""
    if node.target == COND:
        return tuple(node.args[3])
    return node.args[1:] if node.target == CHECKPOINT else node.args[2:]


def _with_operands(node: Node, operands: tuple[Any, ...]) -> Node:
    if node.target == COND:
        kind = type(node.args[3])
        return replace(node, args=(*node.args[:3], kind(operands)))
    return replace(node, args=(*node.args[: 1 if node.target == CHECKPOINT else 2], *operands))


def _bodies_of(graph: Graph, node: Node) -> list[str]:
    """Return the targets of the attributes that hold the op's bodies."""
    return [graph.node(node.args[i].name).target for i in _BODY_POSITIONS[node.target]]


def _unread(graph: Graph, node: Node) -> list[int]:
    """Return the positions of operands that no body reads. Empty if another op shares a body."""
    targets = _bodies_of(graph, node)
    shared = sum(other.target in targets for other in graph.nodes if other.op == "get_attr") > len(set(targets))
    bodies = [body for target in targets if (body := graph.modules[target].graph) is not None]
    count = len(_operands(node))
    if shared or len(bodies) < len(targets) or any(len(body.placeholders) != count for body in bodies):
        return []
    return [i for i in range(count) if not any(body.users[body.placeholders[i].name] for body in bodies)]


def _without_operand(name: str, position: int) -> Edit:
    def edit(case: Case) -> Case:
        graph = case.graph
        node = next((node for node in graph.ops if node.name == name), None)
        if node is None or position not in _unread(graph, node):
            return case
        modules = dict(graph.modules)
        for target in dict.fromkeys(_bodies_of(graph, node)):
            body = modules[target].graph
            assert body is not None
            unread = body.placeholders[position].name
            nodes = tuple(inner for inner in body.nodes if inner.name != unread)
            modules[target] = replace(modules[target], graph=replace(body, nodes=nodes))
        operands = _operands(node)
        call = _with_operands(node, (*operands[:position], *operands[position + 1 :]))
        nodes = tuple(call if other.name == name else other for other in graph.nodes)
        return pruned(replace(case, graph=replace(graph, nodes=nodes, modules=modules)))

    return edit


def _spare_operands(case: Case) -> list[Row]:
    """Return the last operand first, so that earlier positions stay valid."""
    return [
        row(f"operand {position} of {node.name}", _without_operand(node.name, position))
        for node in case.graph.ops
        if node.target in _BODY_POSITIONS
        for position in reversed(_unread(case.graph, node))
    ]


PASSES = (Pass("operands", "what no body of a higher-order op reads", _spare_operands),)
