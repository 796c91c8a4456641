"""The calls of a Case: those before the failing call, those with other sizes, and a call as a user's function."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from minifier.data.case.case import Call, Case, Ones
from minifier.data.case.expressions import dynamic_dims, floats_in_tensors, is_plain, is_unbacked, symbols_in, value_of
from minifier.data.case.graph import Graph, Node, Ref
from minifier.data.case.inputs import Drawn, Input, ScalarInput, Stored, TensorInput, with_ones
from minifier.data.case.values import (
    Scalar,
    Sequence_,
    TensorMeta,
    Value,
    contiguous_stride,
    is_float,
    is_permuted,
    restride,
)


def called(case: Case, times: int) -> Case:
    """Return the Case whose own graph is called so often with the inputs of the failing call, that call included."""
    others = [call for call in case.before if not call.is_repeat]
    place = next((i for i, call in enumerate(case.before) if call.is_repeat), len(others))
    pause = next((call.pause for call in reversed(case.before) if call.is_repeat), 0.0)
    own = [Call(times=times - 1, pause=pause)] if times > 1 else []
    return replace(case, before=(*others[:place], *own, *others[place:]))


def paused(case: Case, seconds: float) -> Case:
    """Return the Case with a pause of so many seconds between its last earlier call and the failing call."""
    *before, last = case.before
    return replace(case, before=(*before, replace(last, pause=seconds)))


def with_others(case: Case, calls: Sequence[Call | None]) -> Case:
    """Return the Case with these calls in the places of its calls of other graphs, in their order; None removes one.

    A pause before the failing call stays.
    """
    left = iter(calls)
    before = [next(left) if call.graph is not None else call for call in case.before]
    changed = replace(case, before=tuple(call for call in before if call is not None))
    return paused(changed, case.before[-1].pause) if changed.before and case.before[-1].pause else changed


def call_of(case: Case, like: Call | None = None) -> Call:
    """Return a call of the Case's graph as another graph, with ones for floating point tensors and zeros for others.

    `like` gives the number of calls and the other settings. The default is a single call.
    """
    inputs = tuple(with_ones(item) if isinstance(item, TensorInput) else item for item in case.inputs)
    return replace(like or Call(), graph=case.graph, inputs=inputs, sizes=(), ones=None)


def shares_function(case: Case, call: Call) -> bool:
    """Tell whether the call's graph is the Case's own, with layouts of inputs that no other call has."""
    if call.graph is None or call.backward or _text(call.graph) != _text(case.graph):
        return False
    layouts = [_layouts(each.inputs) for each in case.others if _text(each.graph) == _text(case.graph)]
    return layouts.count(_layouts(call.inputs)) == 1 and _layouts(call.inputs) != _layouts(case.inputs)


def is_alike(one: Graph, other: Graph) -> bool:
    """Tell whether both graphs have the same nodes, apart from the arguments."""
    return [(node.name, node.target) for node in one.nodes] == [(node.name, node.target) for node in other.nodes]


def _text(graph: Graph | None) -> list[tuple[object, ...]]:
    return [(node.name, node.op, node.target, node.args, node.kwargs) for node in graph.nodes] if graph else []


def _layouts(inputs: Iterable[Input]) -> list[object]:
    return [(item.meta.shape, item.meta.dtype) if isinstance(item, TensorInput) else item.value for item in inputs]


def values_of_symbols(inputs: Iterable[Input]) -> dict[str, int]:
    """Map each symbol that is the whole size of an input, or a number, to its value in these inputs."""
    return _values_in(i.meta if isinstance(i, TensorInput) else Scalar(i.value, i.symbol) for i in inputs)


def _values_in(inputs: Iterable[Value]) -> dict[str, int]:
    values: dict[str, int] = {}
    for value in inputs:
        if isinstance(value, TensorMeta):
            pairs = zip(value.symbols, value.shape, strict=False)
            values.update({symbol: size for symbol, size in pairs if symbol is not None and is_plain(symbol)})
        elif isinstance(value, Scalar) and value.symbol is not None and type(value.value) is int:
            values.setdefault(value.symbol, value.value)
    return values


def as_called(case: Case) -> Case:
    """Return a captured Case with the failing call's values of its symbols and of the sizes in its graph.

    As captured, they are those of the call that compiled the graph. That call becomes an earlier call of the Case.
    Sizes that only a run tells do not change.
    """
    sizes = _values_in(node.value for node in case.graph.placeholders)
    read = floats_in_tensors(case)
    floats = {known.symbol: known.value for known in read.values() if known.symbol is not None}
    values = {**values_of_symbols(case.inputs), **_floats_called(case, read)}
    compiled: dict[str, Any] = {**sizes, **floats}
    other = {name: value for name, value in compiled.items() if values.get(name, value) != value}
    if not other:
        return case
    nodes = tuple(replace(node, value=_as_called(node.value, values)) for node in case.graph.nodes)
    before = (Call(sizes=tuple(other.items())), *case.before)
    return replace(case, graph=replace(case.graph, nodes=nodes), before=before)


def _floats_called(case: Case, floats: Mapping[str, Scalar]) -> dict[str, float]:
    """Map the symbols of the script's floats to the values in the failing call, where these are known."""
    return {
        symbol: item.source.low
        for item in case.inputs
        if item.name in floats and isinstance(item, TensorInput) and isinstance(item.source, Drawn)
        if (symbol := floats[item.name].symbol) is not None and item.source.low is not None
    }


def _as_called(value: Value, values: Mapping[str, float]) -> Value:
    def number(expression: str | None, known: Any) -> Any:
        called = value_of(expression, values) if expression is not None else None
        return called if type(called) in (int, type(known)) else known

    if isinstance(value, Scalar):
        return replace(value, value=number(value.symbol, value.value))
    if isinstance(value, Sequence_):
        return Sequence_(tuple(_as_called(item, values) for item in value.items))
    if not isinstance(value, TensorMeta) or not any(value.symbols):
        return value
    shape = tuple(map(number, value.symbols, value.shape))
    return replace(value, shape=shape, stride=restride(value, shape)) if shape != value.shape else value


def inputs_of(case: Case, call: Call) -> tuple[Input, ...]:
    """Return the inputs of an earlier call."""
    if call.graph is not None:
        return call.inputs
    inputs = tuple(_with(case, item, dict(call.sizes)) for item in case.inputs) if call.sizes else case.inputs
    return inputs if call.ones is None else tuple(_with_ones(item, call.ones) for item in inputs)


def without_other_inputs(case: Case) -> Case:
    """Return the Case without the calls of its own graph that have other inputs than the failing call."""
    return replace(case, before=tuple(call for call in case.before if not call.has_other_inputs))


def _with(case: Case, item: Input, values: Mapping[str, float]) -> Input:
    """Return the input with these values of symbols. A size stays that has none of them, or no known form."""
    known = {**values_of_symbols(case.inputs), **values}

    def size(expression: str, present: int) -> int:
        computed = None if values.keys().isdisjoint(symbols_in(expression)) else value_of(expression, known)
        return computed if type(computed) is int else present

    if isinstance(item, ScalarInput):
        if item.symbol is None or is_unbacked(item.symbol):
            return item
        if type(item.value) is float:
            return replace(item, value=values.get(item.symbol, item.value))
        return replace(item, value=size(item.symbol, item.value)) if type(item.value) is int else item
    shape = list(item.meta.shape)
    for dim in dynamic_dims(case, item):
        if item.meta.symbols and (expression := item.meta.symbols[dim]) is not None:
            shape[dim] = size(expression, shape[dim])
    return of_size(item, tuple(shape))


def of_size(item: TensorInput, shape: tuple[int, ...]) -> TensorInput:
    """Return the input with another shape, whose values are drawn; unchanged if that is its shape."""
    meta = item.meta
    if shape == meta.shape:
        return item
    is_transposed = not meta.has_default_stride and meta.stride == (1, meta.shape[0])
    stride = (1, shape[0]) if is_transposed else contiguous_stride(shape)
    return replace(item, meta=replace(meta, shape=shape, stride=stride, offset=0, storage=None), source=_drawn(item))


def _with_ones(item: Input, ones: Ones) -> Input:
    if isinstance(item, ScalarInput) or (item.parameter and ones is Ones.INPUTS):
        return item
    return with_ones(item)


def _drawn(item: TensorInput) -> Drawn:
    """Return how to draw values for another shape: as before, unless the values are listed, stored or recorded."""
    if isinstance(item.source, Drawn) and item.source.how != "list":
        return item.source
    return Drawn("randn" if is_float(item.meta.dtype) else "zeros")


def as_function(case: Case) -> Case:
    """Return the Case with sizes read from tensors, and with floats that are numbers.

    With dynamic shapes Dynamo adds a placeholder for each size, and passes a float in a tensor, whose `item` the graph
    reads. An unused size is dropped. The size of a tensor input becomes a call of its `size`. Any other size stays an
    input.
    """
    return _with_floats(_without_sizes(case))


def _size_from(case: Case, item: ScalarInput) -> tuple[str, int] | None:
    for other in case.inputs:
        if isinstance(other, TensorInput):
            for dim, symbol in enumerate(other.meta.symbols):
                if symbol == item.symbol and other.meta.shape[dim] == item.value:
                    return other.name, dim
    return None


def _without_sizes(case: Case) -> Case:
    removed: set[str] = set()
    size_calls: list[Node] = []
    for item in case.inputs:
        if not isinstance(item, ScalarInput) or item.symbol is None:
            continue
        source = _size_from(case, item)
        if not case.graph.users[item.name]:
            removed.add(item.name)
        elif source is not None:
            removed.add(item.name)
            name, dim = source
            value = case.graph.node(item.name).value
            size_calls.append(Node(item.name, "call_method", "size", (Ref(name), dim), value=value))
    nodes = [node for node in case.graph.nodes if node.name not in removed]
    placeholders = [node for node in nodes if node.op == "placeholder"]
    rest = [node for node in nodes if node.op != "placeholder"]
    graph = Graph((*placeholders, *size_calls, *rest), case.graph.attributes, case.graph.modules)
    return replace(case, graph=graph, inputs=tuple(item for item in case.inputs if item.name not in removed))


def _with_floats(case: Case) -> Case:
    floats = floats_in_tensors(case)
    read = {user: Ref(name) for name in floats for user in case.graph.users[name]}
    if not floats:
        return case

    def number(item: Input) -> Input:
        if item.name not in floats:
            return item
        return ScalarInput(item.name, floats[item.name].value, floats[item.name].symbol)

    def changed(node: Node) -> Node:
        return replace(node, value=floats[node.name]) if node.name in floats else node.reading(read)

    nodes = tuple(changed(node) for node in case.graph.nodes if node.name not in read)
    return replace(case, graph=replace(case.graph, nodes=nodes), inputs=tuple(map(number, case.inputs)))


def attributes_as_inputs(case: Case) -> Case:
    """Turn the attributes of the Case's graph into parameters.

    While inductor freezes (its option `freezing`), Dynamo makes attributes of all parameters that a function gets.
    """
    placeholders: list[Node] = []
    rest: list[Node] = []
    inputs: list[Input] = list(case.inputs)
    for node in case.graph.nodes:
        if node.op == "get_attr" and node.target in case.graph.attributes:
            assert isinstance(node.value, TensorMeta), "Dynamo notes the layout of each tensor"
            stored = Stored(case.graph.attributes[node.target], contiguous=True)
            shape, stride = node.value.shape, node.value.stride
            stride = stride if is_permuted(shape, stride) else contiguous_stride(shape)
            meta = replace(node.value, stride=stride, offset=0, storage=None)
            inputs.append(TensorInput(node.name, meta, stored, parameter=True))
            placeholders.append(replace(node, op="placeholder", target=node.name))
        else:
            (placeholders if node.op == "placeholder" else rest).append(node)
    return replace(case, graph=Graph((*placeholders, *rest), {}, case.graph.modules), inputs=tuple(inputs))
