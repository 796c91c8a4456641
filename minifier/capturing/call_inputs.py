"""The inputs of a graph's call, as a Case describes them, and why their sizes are symbolic."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from minifier.data.case import BackendReference, Drawn, Graph, Input, ScalarInput, State, Stored, Symbolic, TensorInput
from minifier.data.case.expressions import floats_read, reads_float
from minifier.data.case.inputs import Source
from minifier.data.case.values import Scalar, TensorMeta, Value, is_float
from minifier.data.torch_names import SET_BY_DYNAMIC
from minifier.errors import CannotSave
from minifier.torch_side.fx.arguments import tensor_meta
from minifier.torch_side.fx.tensors import TensorFile, storage_elements
from minifier.torch_side.torch_private.graphs import as_hint, assumes_dynamic, expression_of, marked_dims

_NO_MEMORY = Drawn("no memory")


def inputs_by_shape(graph: Graph, floats: str = "zeros") -> tuple[Input, ...]:
    """Describe inputs whose values are not known: tensors are zeros, those of floats are drawn in the given way."""
    return tuple(_input_by_shape(node.name, node.value, floats) for node in graph.placeholders)


def _input_by_shape(name: str, value: Any, floats: str) -> Input:
    if isinstance(value, TensorMeta):
        return TensorInput(name, value, Drawn(floats if is_float(value.dtype) else "zeros"))
    return ScalarInput(name, value.value, value.symbol) if isinstance(value, Scalar) else ScalarInput(name, None)


def inputs_of_call(graph: Graph, values: Sequence[Any], tensors: TensorFile) -> tuple[Input, ...]:
    """Describe the values of a call, and add their tensors to the file. Raises CannotSave."""
    placeholders = graph.placeholders
    if len(placeholders) != len(values):
        raise CannotSave(f"the graph has {len(placeholders)} inputs, but was called with {len(values)}")
    pairs = [(node, value) for node, value in zip(placeholders, values, strict=True)]
    values_by_name = {n.name: v for n, v in pairs if isinstance(v, torch.Tensor) and not v._is_zerotensor()}
    # Only these ops reach beyond their input.
    reaches = any("as_strided" in node.target for node in graph.ops)
    windows = {n: size for n, v in values_by_name.items() if reaches and (size := storage_elements(v))}
    floats = {n: v.item() for n in floats_read(graph) if type(v := values_by_name.get(n)) is torch.Tensor}
    known = {n: Drawn("full", low=number) for n, number in floats.items() if math.isfinite(number)}
    stored: dict[str, Source] = {
        **known,
        **tensors.add_inputs({n: v for n, v in values_by_name.items() if n not in known}, windows),
    }
    storages: dict[object, int] = {}
    inputs: list[Input] = []
    for node, value in pairs:
        if isinstance(value, torch.Tensor):
            meta = tensor_meta(value, storages)
            parameter, inference = isinstance(value, torch.nn.Parameter), value.is_inference()
            source, storage = stored.get(node.name, _NO_MEMORY), windows.get(node.name, 0)
            storage = 0 if isinstance(source, Stored) and source.shared else storage
            inputs.append(TensorInput(node.name, meta, source, value.is_leaf, parameter, inference, storage))
        elif value is None or isinstance(value, (bool, int, float, str)):
            inputs.append(ScalarInput(node.name, value))
        elif isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            inputs.append(ScalarInput(node.name, as_hint(value), expression_of(value)))
        else:
            kind = type(value)
            raise CannotSave(f"the input {node.name}, a {kind.__module__}.{kind.__qualname__}")
    return tuple(inputs)


def with_expressions(graph: Graph, inputs: tuple[Input, ...]) -> tuple[Input, ...]:
    """Add the expressions of the graph's placeholders to the inputs.

    A number without a value gets the size that has the same expression.
    """
    named = [_named(item, node.value) for item, node in zip(inputs, graph.placeholders, strict=True)]
    sizes = {
        expression: size
        for item in named
        if isinstance(item, TensorInput)
        for expression, size in zip(item.meta.symbols, item.meta.shape, strict=False)
        if expression is not None
    }
    return tuple(_valued(item, sizes) for item in named)


def _named(item: Input, value: Value) -> Input:
    if isinstance(item, TensorInput) and isinstance(value, TensorMeta):
        return replace(item, meta=replace(item.meta, symbols=value.symbols))
    if isinstance(item, ScalarInput) and isinstance(value, Scalar):  # a compiled function gets Python numbers
        return replace(item, symbol=value.symbol)
    return item


def _valued(item: Input, sizes: dict[str, int]) -> Input:
    if isinstance(item, ScalarInput) and item.symbol in sizes and item.value is None:
        return replace(item, value=sizes[item.symbol])
    return item


def with_dynamic_once(
    origin: Symbolic | None, backend: BackendReference, state: State
) -> tuple[BackendReference, State]:
    """Return backend and state with `dynamic=` only once: if the backend has a value, the state loses its own."""
    if origin is Symbolic.GIVEN:
        backend = replace(backend, dynamic=True)
    if backend.dynamic is not None:
        config = tuple(entry for entry in state.config if entry[:2] not in SET_BY_DYNAMIC)
        state = replace(state, config=config)
    return backend, state


def origin_of_symbols(graph: Graph, values: Sequence[Any]) -> Symbolic | None:
    """Return why sizes or floats are symbolic, or None. `values` are the backend's example inputs.

    A graph that reads floats of the script's from tensors is symbolic as well.
    """
    marked: set[str] = set()
    unmarked: set[str] = set()
    for node, value in zip(graph.placeholders, values, strict=False):
        if isinstance(node.value, TensorMeta):
            marks = marked_dims(value) if isinstance(value, torch.Tensor) else ()
            for dim, name in enumerate(node.value.symbols):
                if name is not None:
                    (marked if dim in marks else unmarked).add(name)
        elif isinstance(node.value, Scalar) and node.value.symbol is not None:
            unmarked.add(node.value.symbol)
    if not (marked or unmarked or any(map(reads_float, graph.ops))):
        return None
    if assumes_dynamic():
        return Symbolic.GIVEN
    return Symbolic.MARKED if marked and not unmarked - marked else Symbolic.AUTOMATIC
