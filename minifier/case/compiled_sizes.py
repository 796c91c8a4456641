"""Calls of a Case's own graph with other inputs than the failing call's: the one that compiled it, above all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from minifier.case.case import Call, Case, Level, Ones
from minifier.case.expressions import is_plain, is_unbacked, value_of
from minifier.case.inputs import Drawn, Input, ScalarInput, TensorInput, with_ones
from minifier.case.script_floats import floats_in_tensors
from minifier.case.values import Scalar, Sequence_, TensorMeta, Value, contiguous_stride, restride
from minifier.errors import NoRepro


def values_of_symbols(inputs: Iterable[Input]) -> dict[str, int]:
    """Map each symbol that is the whole size of an input, or a number, to its value in these inputs."""
    values: dict[str, int] = {}
    for item in inputs:
        if isinstance(item, TensorInput):
            pairs = zip(item.meta.symbols, item.meta.shape, strict=False)
            values.update({symbol: size for symbol, size in pairs if symbol is not None and is_plain(symbol)})
        elif item.symbol is not None and type(item.value) is int:
            values.setdefault(item.symbol, item.value)
    return values


def as_called(case: Case) -> Case:
    """Return a captured Case with the values that its symbols and the sizes in its graph have in the failing call.

    They have those of the compilation before. Sizes that only a run tells stay the same. The call that compiled the
    graph becomes the first call of Dynamo's graphs, if all of its sizes can be followed.
    """
    sizes = {known.name: known.hint for known in case.symbols if type(known.hint) is int}
    read = floats_in_tensors(case)
    floats = {known.symbol: known.value for known in read.values() if known.symbol is not None}
    values = {**values_of_symbols(case.inputs), **_floats_called(case, read)}
    compiled: dict[str, Any] = {**sizes, **floats}
    other = {name: value for name, value in compiled.items() if values.get(name, value) != value}
    if not other:
        return case
    symbols = tuple(replace(known, hint=values.get(known.name, known.hint)) for known in case.symbols)
    nodes = tuple(replace(node, value=_as_called(node.value, values)) for node in case.graph.nodes)
    called = replace(case, symbols=symbols, graph=replace(case.graph, nodes=nodes))
    first = Call(sizes=tuple(other.items()))
    try:
        inputs_of(called, first)
    except NoRepro:
        return called
    return replace(called, before=(first, *case.before)) if case.level is Level.DYNAMO else called


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
    """Return the inputs of an earlier call. Raises NoRepro if a size of the Case's own graph has no known form."""
    if call.graph is not None:
        return call.inputs
    values = {**values_of_symbols(case.inputs), **dict(call.sizes)}
    inputs = inputs_with(case.inputs, values) if call.sizes else case.inputs
    return inputs if call.ones is None else tuple(_with_ones(item, call.ones) for item in inputs)


def without_other_inputs(case: Case) -> Case:
    """Return the Case without the calls of its own graph that have other inputs than the failing call."""
    return replace(case, before=tuple(call for call in case.before if not call.has_other_inputs))


def inputs_with(inputs: Iterable[Input], values: Mapping[str, float]) -> tuple[Input, ...]:
    """Return the inputs with these values of symbols; inputs without symbols stay the same.

    Values of a tensor whose size changes are drawn. Raises NoRepro if a size has no known form.
    """
    return tuple(_with(item, values) for item in inputs)


def _with(item: Input, values: Mapping[str, float]) -> Input:
    if isinstance(item, ScalarInput):
        if item.symbol is None or is_unbacked(item.symbol):
            return item
        if type(item.value) is float:
            return replace(item, value=values.get(item.symbol, item.value))
        return replace(item, value=size_of(item.symbol, values)) if type(item.value) is int else item
    meta = item.meta
    shape = tuple(
        size if symbol is None or is_unbacked(symbol) else size_of(symbol, values)
        for size, symbol in zip(meta.shape, meta.symbols or (None,) * len(meta.shape), strict=True)
    )
    if shape == meta.shape:
        return item
    is_transposed = not meta.is_contiguous and meta.stride == (1, meta.shape[0])
    stride = (1, shape[0]) if is_transposed else contiguous_stride(shape)
    return replace(item, meta=replace(meta, shape=shape, stride=stride, offset=0, storage=None), source=_drawn(item))


def _with_ones(item: Input, ones: Ones) -> Input:
    if isinstance(item, ScalarInput) or (item.parameter and ones is Ones.INPUTS):
        return item
    return with_ones(item)


def size_of(expression: str, values: Mapping[str, float]) -> int:
    """Evaluate a symbolic size like `2*s0 + 1`. Raises NoRepro if its form is unknown."""
    size = value_of(expression, values)
    if type(size) is not int:
        raise NoRepro(f"the symbolic size {expression} cannot be followed")
    return size


def _drawn(item: TensorInput) -> Drawn:
    """Return how to draw values for another shape: as before, unless the values are listed, stored or recorded."""
    if isinstance(item.source, Drawn) and item.source.how != "list":
        return item.source
    return Drawn("randn" if item.meta.dtype.startswith(("float", "bfloat", "complex")) else "zeros")
