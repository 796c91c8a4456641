"""Ops, inputs and outputs that other values of the graph can stand in for, or that need not be there."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import combinations

from minifier.case import Case, Input, Level, Node, Ref, ScalarInput, TensorInput, TensorMeta
from minifier.case.graph import map_refs, refs_in
from minifier.case.ops import atoms, is_in_place, with_ops
from minifier.case.symbolic_sizes import as_dynamo_would, has_symbols
from minifier.case.targets import HIGHER_ORDER
from minifier.passes.bodies import alike
from minifier.passes.edits import Edit, Pass, Row, row

_FEW = 5  # ops of which all pairs are tried


def _standing_in(case: Case, gone: str, other: str) -> Case:
    """The Case with one value read wherever another was, which is not there any more."""

    def change(ref: Ref) -> Ref:
        return Ref(other) if ref.name == gone else ref

    nodes = [
        replace(node, args=map_refs(node.args, change), kwargs=map_refs(node.kwargs, change))
        for node in case.graph.nodes
        if node.name != gone
    ]
    if any(node.target.startswith(HIGHER_ORDER) and _repeats(node) for node in nodes):
        return case  # which may not be given the same tensor twice, as a kernel should not
    return pruned(replace(case, graph=replace(case.graph, nodes=tuple(nodes))))


def _repeats(node: Node) -> bool:
    names = list(node.refs())
    return len(set(names)) < len(names)


def pruned(case: Case) -> Case:
    """The Case without inputs that nothing reads, and without results that are inputs or the same twice."""
    graph, output = case.graph, case.graph.output
    (results,) = output.args
    if case.level is Level.DYNAMO and isinstance(results, (tuple, list)):
        inputs = {node.name for node in graph.placeholders}
        own = [each for each in dict.fromkeys(results) if not (isinstance(each, Ref) and each.name in inputs)]
        if not own:
            return case
        output = replace(output, args=(tuple(own),))
    nodes = (*graph.nodes[:-1], output)
    read = {name for node in nodes for name in node.refs()}
    kept = [node for node in nodes if node.op != "placeholder" or node.name in read or _is_size(case, node.name)]
    left = {node.name for node in kept}
    made = replace(
        case,
        graph=replace(graph, nodes=tuple(kept)),
        inputs=tuple(item for item in case.inputs if item.name in left),
    )
    return as_dynamo_would(made) if has_symbols(case.inputs) and case.level is Level.DYNAMO else made


def _is_size(case: Case, name: str) -> bool:
    return any(isinstance(item, ScalarInput) and item.symbol and item.name == name for item in case.inputs)


def _bypass(case: Case) -> list[Row]:
    """An op by an operand, or another input, that has the same shape and dtype."""
    rows = []
    for node in case.graph.ops:
        if is_in_place(node) or not isinstance(node.value, TensorMeta):
            continue
        operands = [case.graph.node(name) for name in dict.fromkeys(node.refs())]
        stand_ins = [other.name for other in operands if alike(node, other)]
        if stand_ins and len(case.graph.ops) > 1:
            rows.append(row(f"op {node.name}", *(_by(node.name, name) for name in stand_ins)))
    return rows


def _by(gone: str, other: str) -> Edit:
    def edit(case: Case) -> Case:
        there = {node.name for node in case.graph.nodes}
        return _standing_in(case, gone, other) if {gone, other} <= there else case

    return edit


def _pairs(case: Case) -> list[Row]:
    """Any two ops of a few; of more those of which one reads the other."""
    groups = atoms(case.graph)
    owner = {name: group for group in groups for name in group}
    pairs: Iterable[tuple[tuple[str, ...], tuple[str, ...]]] = combinations(groups, 2)
    if len(groups) > _FEW:
        pairs = dict.fromkeys(
            (owner[name], owner[node.name])
            for node in case.graph.ops
            for name in dict.fromkeys(node.refs())
            if name in owner and owner[name] != owner[node.name]
        )
    return [row(f"ops {a[0]} and {b[0]}", _without((*a, *b))) for a, b in pairs if len(groups) > 2]


def _without(gone: tuple[str, ...]) -> Edit:
    def edit(case: Case) -> Case:
        left = [node.name for node in case.graph.ops if node.name not in gone]
        return with_ops(case, left) if left and len(left) < len(case.graph.ops) else case

    return edit


def _merge(case: Case) -> list[Row]:
    """Inputs that an earlier one of the same kind can stand in for."""
    rows = []
    tensors = [item for item in case.inputs if isinstance(item, TensorInput)]
    for i, item in enumerate(tensors):
        others = [other.name for other in tensors[:i] if _kind(other) == _kind(item)]
        if others:
            rows.append(row(f"input {item.name}", *(_by(item.name, name) for name in others[:2])))
    return rows


def _kind(item: Input) -> tuple[object, ...]:
    assert isinstance(item, TensorInput)
    meta = replace(item.meta, storage=None, offset=0)
    return meta, item.leaf, item.parameter, item.inference


def _outputs(case: Case) -> list[Row]:
    """Results of the graph that ops of it read as well."""
    names = list(dict.fromkeys(refs_in(case.graph.output.args)))
    read = {name for node in case.graph.ops for name in node.refs()}
    spare = [name for name in names if name in read]
    return [row(f"result {name}", _not_given(name)) for name in spare] if len(names) > 1 else []


def _not_given(name: str) -> Edit:
    def edit(case: Case) -> Case:
        (results,) = case.graph.output.args
        left = tuple(each for each in results if each != Ref(name)) if isinstance(results, (tuple, list)) else ()
        if not any(refs_in(left)) or len(left) == len(results):
            return case
        nodes = (*case.graph.nodes[:-1], replace(case.graph.output, args=(left,)))
        return replace(case, graph=replace(case.graph, nodes=nodes))

    return edit


def _of_dynamos(rows: Callable[[Case], list[Row]]) -> Callable[[Case], list[Row]]:
    """Of graphs of Dynamo's alone: what AOTAutograd hands over has its inputs and results in an order that counts."""
    return lambda case: rows(case) if case.level is Level.DYNAMO else []


PASSES = (
    Pass("bypass", "ops that one of their operands can stand in for", _of_dynamos(_bypass), alone=True),
    Pass("pairs", "two ops at once: any two of a few, else those of which one reads the other", _pairs, alone=True),
    Pass("outputs", "results that are needed on the way to another", _of_dynamos(_outputs)),
    Pass("merge", "inputs that another of the same kind can stand in for", _of_dynamos(_merge)),
)
