"""Unneeded results of a multi-output op. The search of ops keeps or removes all of them together."""

from __future__ import annotations

from minifier.data.case import Case, Graph, Node
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


PASSES = (Pass("items", "results of a multi-output op that nothing needs", _items),)
