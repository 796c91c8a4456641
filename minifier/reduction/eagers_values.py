"""Puts values that eager computes in the place of ops, in the whole graph."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from minifier.case import Case, Graph, Input, Node, Recorded, Ref, ScalarInput, TensorMeta
from minifier.case.graph import map_refs, refs_in
from minifier.case.in_place import is_in_place
from minifier.case.ops import atoms, with_ops, written_storage


@dataclass(frozen=True, slots=True)
class _Write:
    """An in-place op at its position, with the storage that it changes."""

    at: int
    op: str
    storage: int


def _writes(graph: Graph, among: Collection[str]) -> list[_Write]:
    nodes = [(i, node) for i, node in enumerate(graph.nodes) if node.name in among and is_in_place(node)]
    written = [(i, node.name, written_storage(graph, node)) for i, node in nodes]
    return [_Write(i, op, storage) for i, op, storage in written if storage is not None]


def _changed(graph: Graph, reader: Node, writes: Sequence[_Write]) -> dict[str, str]:
    """Return the tensors that the reader reads after a write, each with the last op that has changed its storage."""
    changed = {}
    here = graph.index[reader.name] if writes else 0
    for name in reader.refs() if writes else ():
        value, made = graph.node(name).value, graph.index[name]
        for write in writes:
            if made < write.at < here and isinstance(value, TensorMeta) and value.storage == write.storage:
                changed[name] = write.op
    return changed


def _snapshot(tensor: str, op: str) -> str:
    return f"{tensor}_after_{op}"


def with_snapshots(graph: Graph) -> Graph:
    """Return the graph with a copy of each tensor that is read after an in-place op of another atom has changed it.

    Values are recorded as they are made. The copies record what they are later."""
    writes = _writes(graph, {node.name for node in graph.ops})
    if not writes:
        return graph
    atom_of = {name: i for i, group in enumerate(atoms(graph)) for name in group}
    pairs = [(node.name, *pair) for node in graph.ops for pair in _changed(graph, node, writes).items()]
    copies: dict[str, list[Node]] = {}
    for tensor, op in dict.fromkeys((tensor, op) for reader, tensor, op in pairs if atom_of[reader] != atom_of[op]):
        value = graph.node(tensor).value
        assert isinstance(value, TensorMeta), "it has a storage"
        own = replace(value, storage=None, offset=0)
        copy = Node(_snapshot(tensor, op), "call_function", "torch.clone", (Ref(tensor),), value=own)
        copies.setdefault(op, []).append(copy)
    return replace(graph, nodes=tuple(each for node in graph.nodes for each in (node, *copies.get(node.name, ()))))


def with_eagers_values(case: Case, names: Collection[str]) -> Case | None:
    """Return the Case with the recorded values of these ops, whole atoms, in their places; None if one is not recorded.

    In the place of a result that the ops compute stand the values from which they compute it."""
    graph = case.graph
    writes = _writes(graph, names)
    changed = {node.name: _changed(graph, node, writes) for node in graph.nodes}
    whole = with_snapshots(graph)
    kept = [node.name for node in graph.ops if node.name not in names]
    if any(_snapshot(*pair) not in whole.index for name in kept for pair in changed[name].items()):
        return None
    nodes = tuple(_reading(node, changed.get(node.name, {})) for node in whole.nodes)
    smaller = with_ops(replace(case, graph=replace(whole, nodes=nodes)), kept)
    given = {item.name for item in case.inputs}
    added = [item for item in smaller.inputs if item.name in whole.index and item.name not in given]
    if not all(map(_is_known, added)):
        return None
    results = _results(graph, set(names), changed[graph.output.name])
    return replace(smaller, graph=returning(smaller.graph, [name for name in results if name in smaller.graph.index]))


def _results(graph: Graph, replaced: Collection[str], changed: Mapping[str, str]) -> list[str]:
    """Return the results of the graph, with the values that `replaced` ops read for a result in the result's place.

    `changed` are the results that a replaced op has changed, each with the op."""
    own = [changed.get(name, name) for name in refs_in(graph.output.args)]
    results: dict[str, None] = {}
    waiting, seen = list(own), set(own)
    while waiting:
        name = waiting.pop(0)
        node = graph.node(name)
        if name in replaced:
            more = [each for each in dict.fromkeys(node.refs()) if each not in seen]
            waiting += more
            seen.update(more)
        elif name in own or (node.is_op and isinstance(node.value, TensorMeta)):
            results[name] = None
    return list(results)


def _is_known(item: Input) -> bool:
    return item.value is not None if isinstance(item, ScalarInput) else isinstance(item.source, Recorded)


def _reading(node: Node, changed: dict[str, str]) -> Node:
    """Return the op with the snapshots of tensors that were `changed`, each by an op, in the tensors' places."""

    def snapshot(ref: Ref) -> Ref:
        return Ref(_snapshot(ref.name, changed[ref.name])) if ref.name in changed else ref

    if not changed or not node.is_op:
        return node
    return replace(node, args=map_refs(node.args, snapshot), kwargs=map_refs(node.kwargs, snapshot))


def returning(graph: Graph, names: Sequence[str]) -> Graph:
    """Return the graph with these values as its results."""
    output = replace(graph.output, args=(tuple(map(Ref, names)),))
    return replace(graph, nodes=(*graph.nodes[:-1], output))
