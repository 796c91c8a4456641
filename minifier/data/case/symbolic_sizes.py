"""Symbolic sizes of a Case: which inputs have them, the numbers beside them, and their values in their place."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from minifier.data.case import Call, Case, Graph, Input, Node, Ref, ScalarInput, Symbolic, TensorInput
from minifier.data.case.calls import values_of_symbols, without_other_inputs
from minifier.data.case.expressions import dynamic_dims, floats_in_tensors, is_known_float, is_unbacked, symbols_in
from minifier.data.case.values import Scalar, Sequence_, TensorMeta, Value


def has_symbols(case: Case) -> bool:
    """Tell whether a size or number among the inputs is symbolic."""
    return any(
        item.symbol is not None if isinstance(item, ScalarInput) else dynamic_dims(case, item) for item in case.inputs
    )


def is_symbolic(case: Case) -> bool:
    """Tell whether the backend sees symbols, of inputs or unbacked."""
    return has_symbols(case) or any(is_unbacked_value(node.value) for node in case.graph.nodes if node.is_op)


def goes_through_dynamo(case: Case) -> bool:
    """Tell whether probes call torch.compile on the graph's function, instead of the backend on the graph.

    Dynamo alone makes symbols as Dynamo does. A graph without symbols is handed to the backend as it is, which takes
    half the time, unless the failure was found to need torch.compile.
    """
    is_forced = case.through_dynamo or any(call.ones is not None for call in case.before)
    return is_forced or case.symbolic is not None or is_symbolic(case)


def _expressions(value: Value) -> Iterator[str]:
    if isinstance(value, Scalar) and value.symbol is not None:
        yield value.symbol
    elif isinstance(value, TensorMeta):
        yield from (expression for expression in value.symbols if expression is not None)
    elif isinstance(value, Sequence_):
        for item in value.items:
            yield from _expressions(item)


def is_unbacked_value(value: Value) -> bool:
    """Tell whether only running the graph determines the number, or a size of the tensor."""
    if isinstance(value, TensorMeta) and not value.symbols:  # fast path: nearly all values of a large graph
        return False
    return any(map(is_unbacked, _expressions(value)))


def is_unseen(value: Value) -> bool:
    """Tell whether a value is unbacked and was never observed: the capture then stores size 0, or no number."""
    if isinstance(value, TensorMeta):
        return any(e is not None and is_unbacked(e) and not n for e, n in zip(value.symbols, value.shape, strict=False))
    return isinstance(value, Scalar) and value.symbol is not None and value.value is None


def as_dynamo_would(case: Case) -> Case:
    """Return the candidate with its numbers as Dynamo would pass them to this graph alone.

    A number is the size of an input, an integer argument, or (a constant to Dynamo) a literal. Of the sizes of earlier
    calls those stay that an input has, and that are others than in the failing call.
    """
    sizes = _dynamic_sizes(case)
    first: dict[str, str] = {}
    inlined: dict[str, Any] = {}
    inputs: list[Input] = []
    for item in case.inputs:
        if isinstance(item, TensorInput):
            inputs.append(item)
        elif item.symbol is not None and (item.symbol in sizes or _can_be_own(item, case.symbolic)):
            if first.setdefault(item.symbol, item.name) == item.name:
                inputs.append(item)
            else:
                inlined[item.name] = Ref(first[item.symbol])
        elif item.value is not None:
            inlined[item.name] = item.value
        else:
            inputs.append(replace(item, symbol=None))
    smaller = replace(case, graph=_with_inputs(case.graph, inputs, inlined), inputs=tuple(inputs))
    return replace(smaller, before=tuple(_earlier_calls(smaller))) if case.has_other_inputs else smaller


def _dynamic_sizes(case: Case) -> set[str]:
    tensors = [item for item in case.tensor_inputs if item.meta.symbols]
    expressions = (item.meta.symbols[dim] for item in tensors for dim in dynamic_dims(case, item))
    return {expression for expression in expressions if expression is not None}


def _can_be_own(item: ScalarInput, origin: Symbolic | None) -> bool:
    """Tell whether Dynamo makes the integer argument a symbol, because the number varies between calls."""
    is_unknown = item.symbol is not None and is_unbacked(item.symbol)
    varies = origin is Symbolic.GIVEN or (origin is not Symbolic.MARKED and not is_unknown)
    return varies and type(item.value) is int


def _earlier_calls(case: Case) -> Iterator[Call]:
    """Yield the earlier calls; one whose sizes are those of the failing call is left out."""
    numbers = {item.symbol for item in case.inputs if isinstance(item, ScalarInput)}
    floats = {known.symbol for known in floats_in_tensors(case).values()}
    expressions = _dynamic_sizes(case) | {each for each in numbers | floats if each is not None}
    used = {name for expression in expressions for name in symbols_in(expression)}
    present = values_of_symbols(case.inputs)
    for call in case.before:
        sizes = tuple((name, value) for name, value in call.sizes if name in used and present.get(name) != value)
        if sizes or not call.sizes:
            yield call if sizes == call.sizes else replace(call, sizes=sizes)


def _with_inputs(graph: Graph, inputs: list[Input], inlined: dict[str, Any]) -> Graph:
    values = {
        item.name: item.meta if isinstance(item, TensorInput) else Scalar(item.value, item.symbol) for item in inputs
    }
    entry = [replace(node, value=values[node.name]) for node in graph.placeholders if node.name in values]
    body = [node.reading(inlined) for node in graph.nodes if node.op != "placeholder"]
    return replace(graph, nodes=(*entry, *body))


def specialised(case: Case) -> Case:
    """Return the Case that Dynamo would capture without dynamic shapes.

    Symbols and numbers computed from sizes become their values; unbacked values stay."""
    if case.symbolic is None and not has_symbols(case):
        return case
    values: dict[str, Any] = dict(floats_in_tensors(case))  # their tensors go
    scalars = [item for item in case.inputs if isinstance(item, ScalarInput) and item.symbol is not None]
    values |= {item.name: item.value for item in scalars if item.value is not None}
    nodes: list[Node] = []
    for node in case.graph.nodes:
        if node.name in values:
            continue
        if node.is_op and isinstance(node.value, Scalar) and (_is_known_size(node.value) or is_known_float(node.value)):
            values[node.name] = node.value.value
            continue
        static = _static_meta(node.value) if isinstance(node.value, TensorMeta) else node.value
        nodes.append(replace(node.reading(values), value=static))
    inputs = tuple(
        replace(item, meta=_static_meta(item.meta)) if isinstance(item, TensorInput) else item
        for item in case.inputs
        if item.name not in values
    )
    graph = replace(case.graph, nodes=tuple(_without_unread(nodes)))
    return replace(
        case,
        graph=graph,
        inputs=inputs,
        symbolic=None,
        before=without_other_inputs(case).before,
        backend=replace(case.backend, dynamic=None),
    )


def _is_known_size(value: Scalar) -> bool:
    return value.symbol is not None and isinstance(value.value, int) and not is_unbacked(value.symbol)


def _static_meta(meta: TensorMeta) -> TensorMeta:
    symbols = tuple(e if e is not None and is_unbacked(e) else None for e in meta.symbols)
    return replace(meta, symbols=symbols if any(symbols) else ())


def _without_unread(nodes: list[Node]) -> list[Node]:
    """Return the nodes without unread ops that returned sizes (`x.size()`)."""
    needed: list[Node] = []
    read: set[str] = set()
    for node in reversed(nodes):
        if node.is_op and node.name not in read and isinstance(node.value, Sequence_) and _all_known(node.value):
            continue
        read.update(node.refs())
        needed.append(node)
    return needed[::-1]


def _all_known(value: Sequence_) -> bool:
    return all(isinstance(item, Scalar) and type(item.value) is int for item in value.items)
