"""Write higher-order ops as their public calls: a subgraph is a function, or a method of an autograd function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from minifier.case.graph import Graph, Node, Ref
from minifier.errors import NoRepro
from minifier.interfaces.names import CHECKPOINT, COND, MAP, PUBLIC_MAP, PUBLIC_SCAN, SCAN, SET_GRAD, WHILE_LOOP

_PUBLIC_NAMES = {COND: "torch.cond", CHECKPOINT: "torch.utils.checkpoint:checkpoint"}


def public_call(node: Node) -> Node:
    """Return the public function's call.

    `map` and `scan` of a single tensor take this tensor, no list; `while_loop` takes nothing but its carried values.
    """
    if node.target == WHILE_LOOP and len(node.args) == 4 and not node.args[3]:
        return replace(node, target="torch.while_loop", args=node.args[:3])
    if node.target == MAP and len(node.args) == 3 and len(node.args[1]) == 1:
        body, (over,), others = node.args
        return replace(node, target=PUBLIC_MAP, args=(body, over, *others))
    if node.target == SCAN and [len(tensors) for tensors in node.args[1:]] == [1, 1, 0]:
        body, (first,), (over,), _ = node.args
        return replace(node, target=PUBLIC_SCAN, args=(body, first, over))
    return replace(node, target=_PUBLIC_NAMES.get(node.target, node.target))


def consumers(graph: Graph, get_attr: Node) -> list[Node]:
    """Return the higher-order ops that take the subgraph of a get_attr node."""
    return [graph.node(name) for name in graph.users[get_attr.name]]


def needs_tuple(graph: Graph, get_attr: Node) -> bool:
    """Tell whether the subgraph must return a single result in a tuple.

    A `cond` needs a tuple only if later ops index its result. Other higher-order ops always need a tuple.
    """
    ops = consumers(graph, get_attr)
    if any(op.target != COND for op in ops):
        return True
    return any(graph.node(user).target == "operator.getitem" for op in ops for user in graph.users[op.name])


@dataclass(frozen=True)
class Method:
    """A graph as a method: its parameters, its body lines including the `return`, the Python name of each node."""

    parameters: list[str]
    body: list[str]
    name_of: dict[str, str]


def _without_grad_mode(graph: Graph) -> Graph:
    """Drop the grad mode that torch sets around the body of an autograd function."""
    ops = graph.ops
    if len(ops) < 2 or not all(op.target == SET_GRAD for op in (ops[0], ops[-1])):
        return graph
    switches = {ops[0].name, ops[-1].name}
    return replace(graph, nodes=tuple(node for node in graph.nodes if node.name not in switches))


def _with_output(graph: Graph, results: Any) -> Graph:
    return replace(graph, nodes=(*graph.nodes[:-1], replace(graph.output, args=(results,))))


def autograd_function(graph: Graph, call: Node, name: str, method: Callable[[Graph], Method]) -> str:
    """Return the class of an autograd function. Raises NoRepro if the function saves anything but tensors."""
    forward, backward = (graph.modules[graph.node(ref.name).target].graph for ref in call.args[:2])
    assert forward is not None and backward is not None
    (results,) = forward.output.args
    outputs, saved = results
    if not isinstance(outputs, tuple) or any(not isinstance(value, Ref) for value in saved):
        raise NoRepro("an autograd function of the graph keeps more than tensors, which is not written yet")
    if call.kwargs.get("non_differentiable_idx") or len(call.kwargs.get("saved_for_backward_idx", saved)) < len(saved):
        raise NoRepro("an autograd function of the graph keeps values beside its context, which is not written yet")
    forward_method = method(_with_output(_without_grad_mode(forward), outputs))
    backward_method = method(_without_grad_mode(backward))
    saved_names = [forward_method.name_of[ref.name] for ref in saved]
    grads = backward_method.parameters[: len(outputs)]
    restored = backward_method.parameters[len(outputs) :]
    lines = [
        f"class {name}(torch.autograd.Function):",
        "    @staticmethod",
        f"    def forward({', '.join(['ctx', *forward_method.parameters])}):",
        *(f"        {line}" for line in forward_method.body[:-1]),
        *([f"        ctx.save_for_backward({', '.join(saved_names)})"] if saved_names else []),
        f"        {forward_method.body[-1]}",
        "",
        "    @staticmethod",
        f"    def backward({', '.join(['ctx', *grads])}):",
        *([f"        {_unpacked(restored)} = ctx.saved_tensors"] if restored else []),
        *(f"        {line}" for line in backward_method.body),
    ]
    return "\n".join(lines)


def _unpacked(names: list[str]) -> str:
    return ", ".join(names) if len(names) > 1 else f"({names[0]},)"
