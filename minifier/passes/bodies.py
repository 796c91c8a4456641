"""Removal of ops in the bodies of higher-order ops.

A body keeps its inputs and outputs, because the op's other bodies have as many. So the users of a removed op read an
earlier value of the same shape and dtype instead."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from minifier.case import Case, Graph, Node, TensorMeta
from minifier.case.graph import Ref, map_refs
from minifier.case.in_place import is_in_place

Path = tuple[str, ...]  # get_attr targets, outermost first


def bodies(graph: Graph, above: Path = ()) -> Iterator[tuple[Path, Graph]]:
    """Yield the path and graph of each body, innermost first."""
    for target, module in graph.modules.items():
        if module.graph is not None:
            yield from bodies(module.graph, (*above, target))
            yield (*above, target), module.graph


def body_at(graph: Graph, path: Path) -> Graph:
    """Return the body at the path."""
    for target in path:
        body = graph.modules[target].graph
        assert body is not None
        graph = body
    return graph


def with_body(case: Case, path: Path, body: Graph) -> Case:
    """Return the Case with the body at the path replaced."""
    return replace(case, graph=_replaced(case.graph, path, body))


def _replaced(graph: Graph, path: Path, body: Graph) -> Graph:
    if not path:
        return body
    module = graph.modules[path[0]]
    assert module.graph is not None
    module = replace(module, graph=_replaced(module.graph, path[1:], body))
    return replace(graph, modules={**graph.modules, path[0]: module})


def alike(a: Node, b: Node) -> bool:
    """Return whether both values are tensors of the same shape, dtype and device."""
    x, y = a.value, b.value
    return (
        isinstance(x, TensorMeta)
        and isinstance(y, TensorMeta)
        and (x.shape, x.symbols, x.dtype, x.device) == (y.shape, y.symbols, y.dtype, y.device)
    )


def without_ops(graph: Graph, kept: Collection[str]) -> Graph:
    """Return the body with only the kept ops, and any op that is read and has no stand-in.

    A stand-in is an operand of the removed op or, failing that, an input. A body may return neither an input nor the
    same value twice."""
    stand_ins: dict[str, str] = {}
    outputs = set(graph.output.refs())
    not_outputs = {node.name for node in graph.placeholders} | outputs  # which no further output may become
    nodes: list[Node] = []

    def substituted(ref: Ref) -> Ref:
        return Ref(stand_ins.get(ref.name, ref.name))

    for node in graph.nodes:
        if node.is_op and node.name not in kept:
            operands = [graph.node(stand_ins.get(name, name)) for name in node.refs()]
            candidates = (other.name for other in (*operands, *graph.placeholders) if alike(node, other))
            is_output = node.name in outputs
            stand_in = next((name for name in candidates if not (is_output and name in not_outputs)), None)
            if stand_in is not None:
                not_outputs |= {stand_in} if is_output else set()
                stand_ins[node.name] = stand_in
                continue
        nodes.append(replace(node, args=map_refs(node.args, substituted), kwargs=map_refs(node.kwargs, substituted)))
    return _living(replace(graph, nodes=tuple(nodes)), kept)


def _living(graph: Graph, kept: Collection[str]) -> Graph:
    """Return the graph without ops and attributes that nothing reads any more."""
    read: set[str] = set()
    nodes: list[Node] = []
    for node in reversed(graph.nodes):
        needed = node.name in read or node.op in ("placeholder", "output") or (node.is_op and is_in_place(node))
        if needed or (node.name in kept and not graph.users[node.name]):
            nodes.append(node)
            read.update(node.refs())
    targets = {node.target for node in nodes if node.op in ("get_attr", "call_module")}
    return Graph(
        tuple(reversed(nodes)),
        {target: key for target, key in graph.attributes.items() if target in targets},
        {target: module for target, module in graph.modules.items() if target in targets},
    )
