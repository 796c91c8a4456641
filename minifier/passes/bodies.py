"""Ops in the bodies of higher-order ops. A body keeps its inputs and outputs, which other bodies of the same op have as
well: an op is taken out by having its users read an earlier value of the same shape and dtype in its place."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from minifier.case import Case, Graph, Node, TensorMeta
from minifier.case.graph import Ref, map_refs
from minifier.case.ops import is_in_place

Path = tuple[str, ...]  # of get_attr targets, from the Case's graph inwards


def bodies(graph: Graph, above: Path = ()) -> Iterator[tuple[Path, Graph]]:
    """The graphs that a graph holds, with where they are held, innermost first."""
    for target, module in graph.modules.items():
        if module.graph is not None:
            yield from bodies(module.graph, (*above, target))
            yield (*above, target), module.graph


def body_at(graph: Graph, path: Path) -> Graph:
    """The graph held there."""
    for target in path:
        held = graph.modules[target].graph
        assert held is not None
        graph = held
    return graph


def with_body(case: Case, path: Path, body: Graph) -> Case:
    """The Case with another graph held there."""
    return replace(case, graph=_replaced(case.graph, path, body))


def _replaced(graph: Graph, path: Path, body: Graph) -> Graph:
    if not path:
        return body
    module = graph.modules[path[0]]
    assert module.graph is not None
    made = replace(module, graph=_replaced(module.graph, path[1:], body))
    return replace(graph, modules={**graph.modules, path[0]: made})


def alike(a: Node, b: Node) -> bool:
    """Whether one value can be read in place of another."""
    x, y = a.value, b.value
    return (
        isinstance(x, TensorMeta)
        and isinstance(y, TensorMeta)
        and (x.shape, x.symbols, x.dtype, x.device) == (y.shape, y.symbols, y.dtype, y.device)
    )


def without_ops(graph: Graph, kept: Collection[str]) -> Graph:
    """The body with these of its ops, and those that nothing can stand in for as long as something reads them: values
    made before, first those that the op itself reads, then the inputs. No two outputs of a body may be one value, and
    none an input."""
    stand_ins: dict[str, str] = {}
    outputs = set(graph.output.refs())
    given = {node.name for node in graph.placeholders} | outputs
    nodes: list[Node] = []

    def settled(ref: Ref) -> Ref:
        return Ref(stand_ins.get(ref.name, ref.name))

    for node in graph.nodes:
        if node.is_op and node.name not in kept:
            read = [graph.node(stand_ins.get(name, name)) for name in node.refs()]
            others = [other for other in (*read, *graph.placeholders) if alike(node, other)]
            if node.name in outputs:
                others = [other for other in others if other.name not in given]
            found = next(iter(others), None)
            if found is not None:
                given |= {found.name} if node.name in outputs else set()
                stand_ins[node.name] = found.name
                continue
        nodes.append(replace(node, args=map_refs(node.args, settled), kwargs=map_refs(node.kwargs, settled)))
    return _living(replace(graph, nodes=tuple(nodes)), kept)


def _living(graph: Graph, kept: Collection[str]) -> Graph:
    """The graph without ops and attributes that nothing reads any more."""
    read: set[str] = set()
    nodes: list[Node] = []
    for node in reversed(graph.nodes):
        needed = node.name in read or node.op in ("placeholder", "output") or (node.is_op and is_in_place(node))
        if needed or (node.name in kept and not graph.users[node.name]):
            nodes.append(node)
            read.update(node.refs())
    held = {node.target for node in nodes if node.op in ("get_attr", "call_module")}
    return Graph(
        tuple(reversed(nodes)),
        {target: key for target, key in graph.attributes.items() if target in held},
        {target: module for target, module in graph.modules.items() if target in held},
    )
