"""Higher-order ops as a person calls them: the graphs that they take are functions, or the methods of a class."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from minifier.case.graph import CHECKPOINT, COND, HIGHER_ORDER, SET_GRAD, Graph, Node, Ref
from minifier.errors import NoRepro

# Functions that a person calls by another name than the one in the graph.
PUBLIC = {COND: "torch.cond", CHECKPOINT: "torch.utils.checkpoint:checkpoint"}
_MAP, _PUBLIC_MAP = f"{HIGHER_ORDER}map_impl", "torch._higher_order_ops.map:map"
_SCAN, _PUBLIC_SCAN = f"{HIGHER_ORDER}scan", "torch._higher_order_ops.scan:scan"


def public_call(node: Node) -> Node:
    """The call as the public function takes it: `map` and `scan` of one tensor take it alone."""
    if node.target == _MAP and len(node.args) == 3 and len(node.args[1]) == 1:
        body, (over,), others = node.args
        return replace(node, target=_PUBLIC_MAP, args=(body, over, *others))
    if node.target == _SCAN and [len(each) for each in node.args[1:]] == [1, 1, 0]:
        body, (first,), (over,), _ = node.args
        return replace(node, target=_PUBLIC_SCAN, args=(body, first, over))
    return replace(node, target=PUBLIC.get(node.target, node.target))


def takers(graph: Graph, held: Node) -> list[Node]:
    """The ops that take a graph which `held` gets."""
    return [graph.node(name) for name in graph.users[held.name]]


def needs_tuple(graph: Graph, held: Node) -> bool:
    """Whether a graph is to give back its one result in a tuple, as what takes it goes on to get that from there."""
    found = takers(graph, held)
    if any(taker.target != COND for taker in found):
        return True
    return any(graph.node(user).target == "operator.getitem" for taker in found for user in graph.users[taker.name])


@dataclass(frozen=True)
class Method:
    """A graph as the body of a method: its parameters, its lines up to the `return` and with it, and what its nodes are
    called there."""

    parameters: list[str]
    body: list[str]
    name_of: dict[str, str]


def _without_switches(graph: Graph) -> Graph:
    """The graph without the grad mode that torch sets around an autograd function's."""
    ops = graph.ops
    if len(ops) < 2 or not all(op.target == SET_GRAD for op in (ops[0], ops[-1])):
        return graph
    gone = {ops[0].name, ops[-1].name}
    return replace(graph, nodes=tuple(node for node in graph.nodes if node.name not in gone))


def _giving(graph: Graph, results: Any) -> Graph:
    return replace(graph, nodes=(*graph.nodes[:-1], replace(graph.output, args=(results,))))


def autograd_function(graph: Graph, call: Node, name: str, method: Callable[[Graph], Method]) -> str:
    """The class of an autograd function. Raises NoRepro for one that keeps other things than tensors."""
    forward, backward = (graph.modules[graph.node(ref.name).target].graph for ref in call.args[:2])
    assert forward is not None and backward is not None
    (results,) = forward.output.args
    outputs, saved = results
    if not isinstance(outputs, tuple) or any(not isinstance(each, Ref) for each in saved):
        raise NoRepro("an autograd function of the graph keeps more than tensors, which is not written yet")
    if call.kwargs.get("non_differentiable_idx") or len(call.kwargs.get("saved_for_backward_idx", saved)) < len(saved):
        raise NoRepro("an autograd function of the graph keeps values beside its context, which is not written yet")
    first = method(_giving(_without_switches(forward), outputs))
    second = method(_without_switches(backward))
    kept = [first.name_of[each.name] for each in saved]
    grads, restored = second.parameters[: len(outputs)], second.parameters[len(outputs) :]
    lines = [
        f"class {name}(torch.autograd.Function):",
        "    @staticmethod",
        f"    def forward({', '.join(['ctx', *first.parameters])}):",
        *(f"        {line}" for line in first.body[:-1]),
        *([f"        ctx.save_for_backward({', '.join(kept)})"] if kept else []),
        f"        {first.body[-1]}",
        "",
        "    @staticmethod",
        f"    def backward({', '.join(['ctx', *grads])}):",
        *([f"        {_unpacked(restored)} = ctx.saved_tensors"] if restored else []),
        *(f"        {line}" for line in second.body),
    ]
    return "\n".join(lines)


def _unpacked(names: list[str]) -> str:
    return ", ".join(names) if len(names) > 1 else f"({names[0]},)"
