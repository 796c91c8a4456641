"""Why sizes of a backend's graph are symbolic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from minifier.data.case import BackendReference, Graph, Input, ScalarInput, State, Symbolic, TensorInput
from minifier.data.case.expressions import reads_float
from minifier.data.case.values import Scalar, TensorMeta, Value
from minifier.data.torch_names import SET_BY_DYNAMIC
from minifier.torch_side.torch_private.graphs import assumes_dynamic, marked_dims


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
