"""Groups of ops that belong together, and the Case with a subset of its ops."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from minifier.data.case import Case, Drawn, Graph, Input, Node, Recorded, Scalar, ScalarInput, TensorInput, TensorMeta
from minifier.data.case.graph import BEGIN, END, is_in_place, refs_in, subset
from minifier.data.case.symbolic_sizes import as_dynamo_would, has_symbols, is_unseen


class _Sets:
    def __init__(self, count: int) -> None:
        self._parent = list(range(count))

    def find(self, item: int) -> int:
        while self._parent[item] != item:
            self._parent[item] = self._parent[self._parent[item]]
            item = self._parent[item]
        return item

    def join(self, a: int, b: int) -> None:
        low, high = sorted((self.find(a), self.find(b)))
        self._parent[high] = low


def _join_uncuttable(graph: Graph, position: dict[str, int], sets: _Sets) -> None:
    """Join ops with their users if their result cannot cross a cut: a split and its getitems, an enter and its exit.

    A tensor or a number of known size can: it becomes an input."""
    for node in graph.ops:
        if not isinstance(node.value, (TensorMeta, Scalar)) or is_unseen(node.value):
            for user in graph.users[node.name]:
                if user in position:
                    sets.join(position[node.name], position[user])


def written_storages(graph: Graph, node: Node) -> set[int]:
    """Return the storages that an op changes in place, as far as they are known."""
    held = {**{str(place): value for place, value in enumerate(node.args)}, **node.kwargs}
    names = [name for key in node.changes if key in held for name in refs_in(held[key])]
    if not names and is_in_place(node):
        names = list(refs_in(node.kwargs.get("out", node.args)))[:1]
    values = [graph.node(name).value for name in names]
    return {value.storage for value in values if isinstance(value, TensorMeta) and value.storage is not None}


def _join_mutations(graph: Graph, position: dict[str, int], sets: _Sets) -> None:
    """Join an in-place op with the earlier views of its storage that are read after the op."""
    by_storage: dict[int, list[Node]] = {}
    for node in graph.ops:
        if isinstance(node.value, TensorMeta) and node.value.storage is not None:
            by_storage.setdefault(node.value.storage, []).append(node)
    for node in graph.ops:
        here = graph.index[node.name]
        for other in (other for storage in written_storages(graph, node) for other in by_storage.get(storage, ())):
            is_earlier = graph.index[other.name] < here
            if is_earlier and any(graph.index[user] > here for user in graph.users[other.name]):
                sets.join(position[other.name], position[node.name])


def _join_switches(graph: Graph, position: dict[str, int], sets: _Sets) -> None:
    """Join pairs without dataflow: a switch of grad mode and back, begin and end of torch.func's transforms."""
    opened: str | None = None
    transforms: list[str] = []
    for node in graph.ops:
        if node.short_target == "_set_grad_enabled":
            if opened is None:
                opened = node.name
            else:
                sets.join(position[opened], position[node.name])
                opened = None
        elif node.short_target in BEGIN:
            transforms.append(node.name)
        elif node.short_target in END and transforms:
            sets.join(position[transforms.pop()], position[node.name])


def atoms(graph: Graph, *, views_stay: bool = True) -> tuple[tuple[str, ...], ...]:
    """Return the groups of ops that only make sense together, in the order of their first op.

    Without `views_stay`, an in-place op is apart from the views of its storage: a part of them may compute other values
    than in the whole graph, but it is a program."""
    ops = graph.ops
    position = {node.name: i for i, node in enumerate(ops)}
    sets = _Sets(len(ops))
    _join_uncuttable(graph, position, sets)
    if views_stay:
        _join_mutations(graph, position, sets)
    _join_switches(graph, position, sets)
    groups: dict[int, list[str]] = {}
    for i, node in enumerate(ops):
        groups.setdefault(sets.find(i), []).append(node.name)
    return tuple(tuple(group) for group in groups.values())


def parents(graph: Graph, groups: tuple[tuple[str, ...], ...]) -> tuple[tuple[int, ...], ...]:
    """Return for each atom the indices of the earlier atoms that the atom reads."""
    owner = {name: i for i, group in enumerate(groups) for name in group}
    return tuple(
        tuple(sorted({owner[r] for n in group for r in graph.node(n).refs() if r in owner and owner[r] < i}))
        for i, group in enumerate(groups)
    )


def kind(graph: Graph, group: tuple[str, ...]) -> str:
    """Return a key that repeated atoms share: targets, result types and arity."""
    descriptions = []
    for name in group:
        node = graph.node(name)
        dtype = node.value.dtype if isinstance(node.value, TensorMeta) else type(node.value).__name__
        descriptions.append(f"{node.target}/{dtype}/{len(tuple(node.refs()))}")
    return " ".join(descriptions)


def with_ops(case: Case, names: Iterable[str]) -> Case:
    """Return the Case with only these ops.

    Cut values are zeros for a failure to compile, else the values recorded in an eager run."""
    graph = subset(case.graph, names)
    known_inputs = {item.name: item for item in case.inputs}
    inputs = tuple(known_inputs.get(node.name) or _cut_input(node, case) for node in graph.placeholders)
    smaller = replace(case, graph=graph, inputs=inputs)
    symbolic = case.symbolic is not None or has_symbols(smaller)
    return as_dynamo_would(smaller) if symbolic else _in_order_of_use(smaller)


def _in_order_of_use(case: Case) -> Case:
    """Put the inputs in the order in which ops read them, as Dynamo does. Gradients have the order of the inputs."""
    placeholders = {node.name: node for node in case.graph.placeholders}
    rest = tuple(node for node in case.graph.nodes if node.op != "placeholder")
    used = dict.fromkeys(name for node in rest for name in node.refs() if name in placeholders)
    names = {**used, **placeholders}
    inputs = {item.name: item for item in case.inputs}
    graph = replace(case.graph, nodes=(*(placeholders[name] for name in names), *rest))
    return replace(case, graph=graph, inputs=tuple(inputs[name] for name in names))


def _cut_input(node: Node, case: Case) -> Input:
    if isinstance(node.value, Scalar):
        return ScalarInput(node.name, node.value.value, node.value.symbol)
    if not isinstance(node.value, TensorMeta):
        return ScalarInput(node.name, None)
    source = Drawn("zeros") if case.ignores_values else Recorded(node.name)
    leaf = not node.value.requires_grad
    return TensorInput(node.name, node.value, source, leaf, inference=case.state.inference)
