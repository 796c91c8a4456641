"""Results of a multi-output op that nothing needs. In the search such an op goes with all of them."""

from __future__ import annotations

from minifier.case import Case, Graph, Node
from minifier.case.graph import refs_in
from minifier.passes.edits import Edit, Pass
from minifier.passes.ops import with_ops


def _source(node: Node) -> str | None:
    """The op whose result a getitem takes."""
    return next(refs_in(node.args), None) if node.target == "operator.getitem" else None


def _spare(graph: Graph) -> list[str]:
    """getitems that no op reads, if their op keeps another."""
    items: dict[str, list[str]] = {}
    for node in graph.ops:
        source = _source(node)
        if source is not None and graph.node(source).is_op:
            items.setdefault(source, []).append(node.name)
    unread = {node.name for node in graph.ops if graph.users[node.name] in ((), ("output",))}
    return [name for names in items.values() for name in names if name in unread and len(names) > 1]


def _without(name: str) -> Edit:
    def edit(case: Case) -> Case:
        if name not in _spare(case.graph):
            return case
        return with_ops(case, [node.name for node in case.graph.ops if node.name != name])

    return edit


def _items(case: Case) -> list[Edit]:
    return [_without(name) for name in _spare(case.graph)]


PASSES = (Pass("items", "results of a multi-output op that nothing needs", _items),)
