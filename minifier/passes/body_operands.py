"""What a higher-order op hands on to its bodies, and none of them reads."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from minifier.case import Case, Graph, Node
from minifier.case.targets import CHECKPOINT, COND, REGION
from minifier.passes.edits import Edit, Pass, Row, row
from minifier.passes.operands import pruned

_TAKES = {COND: (1, 2), CHECKPOINT: (0,), REGION: (0,)}  # where these ops have their bodies among the arguments


def _operands(node: Node) -> tuple[Any, ...]:
    """What a higher-order op hands on to its bodies."""
    if node.target == COND:
        return tuple(node.args[3])
    return node.args[1:] if node.target == CHECKPOINT else node.args[2:]


def _with_operands(node: Node, operands: tuple[Any, ...]) -> Node:
    if node.target == COND:
        kind = type(node.args[3])
        return replace(node, args=(*node.args[:3], kind(operands)))
    return replace(node, args=(*node.args[: 1 if node.target == CHECKPOINT else 2], *operands))


def _bodies_of(graph: Graph, node: Node) -> list[str]:
    """The attributes that hold the bodies of a higher-order op."""
    return [graph.node(node.args[i].name).target for i in _TAKES[node.target]]


def _unread(graph: Graph, node: Node) -> list[int]:
    """Positions of operands that no body of the op reads; none if a body is another op's too."""
    targets = _bodies_of(graph, node)
    held = [graph.modules[target].graph for target in targets]
    shared = sum(other.target in targets for other in graph.nodes if other.op == "get_attr") > len(set(targets))
    inner = [each for each in held if each is not None]
    count = len(_operands(node))
    if shared or len(inner) < len(held) or any(len(each.placeholders) != count for each in inner):
        return []
    return [i for i in range(count) if not any(each.users[each.placeholders[i].name] for each in inner)]


def _without_operand(name: str, position: int) -> Edit:
    def edit(case: Case) -> Case:
        graph = case.graph
        node = next((each for each in graph.ops if each.name == name), None)
        if node is None or position not in _unread(graph, node):
            return case
        modules = dict(graph.modules)
        for target in dict.fromkeys(_bodies_of(graph, node)):
            body = modules[target].graph
            assert body is not None
            gone = body.placeholders[position].name
            left = tuple(each for each in body.nodes if each.name != gone)
            modules[target] = replace(modules[target], graph=replace(body, nodes=left))
        operands = _operands(node)
        made = _with_operands(node, (*operands[:position], *operands[position + 1 :]))
        nodes = tuple(made if each.name == name else each for each in graph.nodes)
        return pruned(replace(case, graph=replace(graph, nodes=nodes, modules=modules)))

    return edit


def _spare_operands(case: Case) -> list[Row]:
    """The last first, so that the positions of those before it stay."""
    return [
        row(f"operand {position} of {node.name}", _without_operand(node.name, position))
        for node in case.graph.ops
        if node.target in _TAKES
        for position in reversed(_unread(case.graph, node))
    ]


PASSES = (Pass("operands", "what no body of a higher-order op reads", _spare_operands),)
