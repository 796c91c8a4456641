"""Unneeded results of a multi-output op. The search of ops keeps or removes all of them together."""

from __future__ import annotations

from dataclasses import replace

from minifier.data.case import Case, Graph, Node, Ref
from minifier.data.case.graph import refs_in
from minifier.data.case.ops import with_ops
from minifier.reduction.passes.edits import Edit, Pass, Row, called, row


def _source(node: Node) -> str | None:
    """Return the op that a getitem reads; None for any other op."""
    return next(refs_in(node.args), None) if node.target == "operator.getitem" else None


def _spare(graph: Graph) -> list[str]:
    """Return the getitems, unless their op has no further getitem; those that no op reads come first."""
    items: dict[str, list[str]] = {}
    for node in graph.ops:
        source = _source(node)
        if source is not None and graph.node(source).is_op:
            items.setdefault(source, []).append(node.name)
    end = graph.output.name
    unread = {node.name for node in graph.ops if graph.users[node.name] in ((), (end,))}
    spare = [name for names in items.values() for name in names if len(names) > 1]
    return sorted(spare, key=lambda name: name not in unread)


def _without(name: str) -> Edit:
    def edit(case: Case) -> Case:
        if name not in _spare(case.graph):
            return case
        return with_ops(case, [node.name for node in case.graph.ops if node.name != name])

    return edit


def _items(case: Case) -> list[Row]:
    graph = case.graph
    sources = {name: graph.node(_source(graph.node(name)) or name) for name in _spare(graph)}
    return [
        row(f"item {name}", _without(name), change=f"Fewer results of {called(source)} read.")
        for name, source in sources.items()
    ]


def _together(case: Case) -> list[Row]:
    """Return a row after which the graph returns its only multi-output op directly, not item by item.

    Only for failures to compile: a comparison needs the separate values."""
    if case.backward or not case.failure.fingerprint.stage.compiles:
        return []
    return [row("items", _return_op)]


def _return_op(case: Case) -> Case:
    graph = case.graph
    items = [node for node in graph.ops if _source(node) is not None]
    sources = {_source(node) for node in items}
    if len(sources) != 1 or {node.name for node in items} != set(refs_in(graph.output.args)):
        return case
    (source,), end = sources, graph.output.name
    if source is None or not graph.node(source).is_op or any(graph.users[node.name] != (end,) for node in items):
        return case
    nodes = [node for node in graph.nodes if node not in items and node.op != "output"]
    output = replace(graph.output, args=((Ref(source),),))
    return replace(case, graph=replace(graph, nodes=(*nodes, output)))


PASSES = (
    Pass("items", "results of a multi-output op that nothing needs", _items),
    Pass("together", "all results of an op given back as they are, instead of each", _together, alone=True),
)
