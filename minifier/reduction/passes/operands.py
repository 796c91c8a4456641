"""Ops, inputs and outputs to remove or to replace by other values, in a graph and in bodies of higher-order ops."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from itertools import combinations
from typing import Any

from minifier.data.case import Case, Graph, Input, Node, Ref, Scalar, TensorInput, TensorMeta
from minifier.data.case.graph import is_in_place, refs_in
from minifier.data.case.ops import atoms, with_ops, written_storages
from minifier.data.case.symbolic_sizes import as_dynamo_would, goes_through_dynamo, has_symbols
from minifier.data.torch_names import CHECKPOINT, COND, HIGHER_ORDER, REGION
from minifier.reduction.passes.edits import Edit, Pass, Row, called, row

_MAX_GROUPS_FOR_ALL_PAIRS = 5


def _substituted(case: Case, removed: str, other: str) -> Case:
    """Return the Case without the node `removed`, whose users read `other` instead."""
    nodes = [node.reading({removed: Ref(other)}) for node in case.graph.nodes if node.name != removed]
    if any(node.target.startswith(HIGHER_ORDER) and len({*node.refs()}) < len([*node.refs()]) for node in nodes):
        return case  # a higher-order op, like a kernel, must not get the same tensor twice
    return pruned(replace(case, graph=replace(case.graph, nodes=tuple(nodes))))


def pruned(case: Case) -> Case:
    """Return the Case without unread inputs, and without results that are inputs or duplicates."""
    graph, output = case.graph, case.graph.output
    (results,) = output.args
    if isinstance(results, (tuple, list)):
        placeholders = {node.name for node in graph.placeholders}
        computed = [r for r in dict.fromkeys(results) if not (isinstance(r, Ref) and r.name in placeholders)]
        if computed:  # else the graph is of in-place ops alone, and returns what they change
            output = replace(output, args=(tuple(computed),))
    nodes = (*graph.nodes[:-1], output)
    read = {name for node in nodes for name in node.refs()}
    nodes = tuple(n for n in nodes if n.op != "placeholder" or n.name in read)
    names = {node.name for node in nodes}
    inputs = tuple(item for item in case.inputs if item.name in names)
    smaller = replace(case, graph=replace(graph, nodes=nodes), inputs=inputs)
    return as_dynamo_would(smaller) if has_symbols(case) else smaller


def _bypass(case: Case) -> list[Row]:
    """Return a row for each op that an operand of the same shape and dtype can replace.

    Where Dynamo traces each candidate again, any tensor can replace a tensor, and any number can replace a number.
    """
    rows = []
    is_retraced = case.while_tracing or goes_through_dynamo(case)
    for node in case.graph.ops:
        own = node.value.storage if isinstance(node.value, TensorMeta) else None
        if is_in_place(node) and (own is None or own in written_storages(case.graph, node)):
            continue  # training batch norm changes statistics, and its result is a tensor of its own
        operands = [case.graph.node(name) for name in dict.fromkeys(node.refs())]
        is_like = _of_same_kind if is_retraced else alike
        stand_ins = [other.name for other in operands if is_like(node, other)]
        if stand_ins and len(case.graph.ops) > 1:
            rows.append(row(f"op {node.name}", *(_replaced(node.name, name) for name in stand_ins)))
    return rows


def _of_same_kind(node: Node, other: Node) -> bool:
    return isinstance(node.value, (TensorMeta, Scalar)) and type(node.value) is type(other.value)


def _replaced(removed: str, other: str) -> Edit:
    def edit(case: Case) -> Case:
        return _substituted(case, removed, other) if {removed, other} <= case.graph.index.keys() else case

    return edit


def _pairs(case: Case) -> list[Row]:
    """Return a row for each two atoms of a small graph; in a larger graph, only for an atom and its operand."""
    groups = atoms(case.graph)
    owner = {name: group for group in groups for name in group}
    pairs: Iterable[tuple[tuple[str, ...], tuple[str, ...]]] = combinations(groups, 2)
    if len(groups) > _MAX_GROUPS_FOR_ALL_PAIRS:
        pairs = dict.fromkeys(
            (owner[name], owner[node.name])
            for node in case.graph.ops
            for name in dict.fromkeys(node.refs())
            if name in owner and owner[name] != owner[node.name]
        )
    return [row(f"ops {a[0]} and {b[0]}", _without((*a, *b))) for a, b in pairs if len(groups) > 2]


def _without(removed: tuple[str, ...]) -> Edit:
    def edit(case: Case) -> Case:
        names = [node.name for node in case.graph.ops if node.name not in removed]
        return with_ops(case, names) if names and len(names) < len(case.graph.ops) else case

    return edit


def _withheld(case: Case) -> list[Row]:
    """Return a row for each atom without which the search would return values that the graph does not return now."""
    rows = [(group, _withholding(group)) for group in atoms(case.graph)]
    return [row(f"op {group[0]}", edit) for group, edit in rows if edit(case) != case]


def _withholding(removed: tuple[str, ...]) -> Edit:
    """Remove the ops, without returning what they read: a result more may be what the failure does not survive."""

    def edit(case: Case) -> Case:
        smaller = _without(removed)(case)
        before = set(refs_in(case.graph.output.args))
        read = {name for node in smaller.graph.ops for name in node.refs()}
        results = tuple(refs_in(smaller.graph.output.args))
        rest = tuple(Ref(name) for name in results if name in before or name not in read)
        if smaller == case or not rest or len(rest) == len(results):
            return case
        nodes = (*smaller.graph.nodes[:-1], replace(smaller.graph.output, args=(rest,)))
        return replace(smaller, graph=replace(smaller.graph, nodes=nodes))

    return edit


def _merge(case: Case) -> list[Row]:
    """Return a row for each input that an earlier input of the same kind can replace."""
    rows = []
    tensors = case.tensor_inputs
    for i, item in enumerate(tensors):
        stand_ins = [other.name for other in tensors[:i] if _kind(other) == _kind(item)]
        if stand_ins:
            rows.append(row(f"input {item.name}", *(_replaced(item.name, name) for name in stand_ins[:2])))
    return rows


def _kind(item: Input) -> tuple[object, ...]:
    assert isinstance(item, TensorInput)
    meta = replace(item.meta, storage=None, offset=0)
    return meta, item.leaf, item.parameter, item.inference


def _outputs(case: Case) -> list[Row]:
    """Return a row for each result of the graph that its ops read as well."""
    names = list(dict.fromkeys(refs_in(case.graph.output.args)))
    read = {name for node in case.graph.ops for name in node.refs()}
    spare = [name for name in names if name in read]
    if len(names) < 2:
        return []
    ops = {name: called(case.graph.node(name)) for name in spare}
    return [
        row(f"result {name}", _without_result(name), change=f"The graph without the result of {op}.")
        for name, op in ops.items()
    ]


def _without_result(name: str) -> Edit:
    def edit(case: Case) -> Case:
        (results,) = case.graph.output.args
        rest = tuple(item for item in results if item != Ref(name)) if isinstance(results, (tuple, list)) else ()
        if not any(refs_in(rest)) or len(rest) == len(results):
            return case
        nodes = (*case.graph.nodes[:-1], replace(case.graph.output, args=(rest,)))
        return replace(case, graph=replace(case.graph, nodes=nodes))

    return edit


_BODY_POSITIONS = {COND: (1, 2), CHECKPOINT: (0,), REGION: (0,)}  # among the arguments


def _operands(node: Node) -> tuple[Any, ...]:
    """Return the operands that a higher-order op passes to its bodies."""
    if node.target == COND:
        return tuple(node.args[3])
    return node.args[1:] if node.target == CHECKPOINT else node.args[2:]


def _with_operands(node: Node, operands: tuple[Any, ...]) -> Node:
    if node.target == COND:
        kind = type(node.args[3])
        return replace(node, args=(*node.args[:3], kind(operands)))
    return replace(node, args=(*node.args[: 1 if node.target == CHECKPOINT else 2], *operands))


def _bodies_of(graph: Graph, node: Node) -> list[str]:
    """Return the targets of the attributes that hold the op's bodies."""
    return [graph.node(node.args[i].name).target for i in _BODY_POSITIONS[node.target]]


def _unread(graph: Graph, node: Node) -> list[int]:
    """Return the positions of operands that no body reads. Empty if another op shares a body."""
    targets = _bodies_of(graph, node)
    shared = sum(other.target in targets for other in graph.nodes if other.op == "get_attr") > len(set(targets))
    bodies = [body for target in targets if (body := graph.modules[target].graph) is not None]
    count = len(_operands(node))
    if shared or len(bodies) < len(targets) or any(len(body.placeholders) != count for body in bodies):
        return []
    return [i for i in range(count) if not any(body.users[body.placeholders[i].name] for body in bodies)]


def _without_operand(name: str, position: int) -> Edit:
    def edit(case: Case) -> Case:
        graph = case.graph
        node = next((node for node in graph.ops if node.name == name), None)
        if node is None or position not in _unread(graph, node):
            return case
        modules = dict(graph.modules)
        for target in dict.fromkeys(_bodies_of(graph, node)):
            body = modules[target].graph
            assert body is not None
            unread = body.placeholders[position].name
            nodes = tuple(inner for inner in body.nodes if inner.name != unread)
            modules[target] = replace(modules[target], graph=replace(body, nodes=nodes))
        operands = _operands(node)
        call = _with_operands(node, (*operands[:position], *operands[position + 1 :]))
        nodes = tuple(call if other.name == name else other for other in graph.nodes)
        return pruned(replace(case, graph=replace(graph, nodes=nodes, modules=modules)))

    return edit


def _spare_operands(case: Case) -> list[Row]:
    """Return the last operand first, so that earlier positions stay valid."""
    return [
        row(
            f"operand {position} of {node.name}",
            _without_operand(node.name, position),
            change=f"The call of {called(node)} without operand {position}.",
        )
        for node in case.graph.ops
        if node.target in _BODY_POSITIONS
        for position in reversed(_unread(case.graph, node))
    ]


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
    return replace(case, graph=_with_body(case.graph, path, body))


def _with_body(graph: Graph, path: Path, body: Graph) -> Graph:
    if not path:
        return body
    module = graph.modules[path[0]]
    assert module.graph is not None
    module = replace(module, graph=_with_body(module.graph, path[1:], body))
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
    stand_ins: dict[str, Ref] = {}
    outputs = set(graph.output.refs())
    not_outputs = {node.name for node in graph.placeholders} | outputs  # which no further output may become
    nodes: list[Node] = []

    for node in graph.nodes:
        if node.is_op and node.name not in kept:
            operands = [graph.node(name) for name in node.reading(stand_ins).refs()]
            candidates = (other.name for other in (*operands, *graph.placeholders) if alike(node, other))
            is_output = node.name in outputs
            stand_in = next((name for name in candidates if not (is_output and name in not_outputs)), None)
            if stand_in is not None:
                not_outputs |= {stand_in} if is_output else set()
                stand_ins[node.name] = Ref(stand_in)
                continue
        nodes.append(node.reading(stand_ins))
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


PASSES = (
    Pass("bypass", "ops that one of their operands can stand in for", _bypass, alone=True),
    Pass("pairs", "two ops at once: any two of a few, else those of which one reads the other", _pairs, alone=True),
    Pass("withheld", "ops, with what they read not given back in their place", _withheld, alone=True),
    Pass("outputs", "results that are needed on the way to another", _outputs),
    Pass("merge", "inputs that another of the same kind can stand in for", _merge),
    Pass("operands", "what no body of a higher-order op reads", _spare_operands),
)
