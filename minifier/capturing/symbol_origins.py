"""Symbolic sizes of a backend's graph, and why they are symbolic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from minifier.data.case import BackendReference, Input, ScalarInput, State, Symbol, Symbolic, TensorInput
from minifier.data.case.expressions import is_plain
from minifier.data.torch_names import SET_BY_DYNAMIC
from minifier.torch_side.torch_private.graphs import assumes_dynamic, expression_of, marked_dims, symbols_of


@dataclass(frozen=True, slots=True)
class Sizes:
    """A graph's symbols. `expressions` has a tuple for each placeholder: a tensor's sizes, or a single number."""

    origin: Symbolic | None = None
    symbols: tuple[Symbol, ...] = ()
    expressions: tuple[tuple[str | None, ...], ...] = ()

    def named(self, inputs: tuple[Input, ...]) -> tuple[Input, ...]:
        """Add the expressions to the inputs. A number without a value gets the size that has the same expression."""
        if self.origin is None:
            return inputs
        named = [_named(item, expressions) for item, expressions in zip(inputs, self.expressions, strict=True)]
        sizes = {
            expression: size
            for item in named
            if isinstance(item, TensorInput)
            for expression, size in zip(item.meta.symbols, item.meta.shape, strict=False)
            if expression is not None
        }
        return tuple(_valued(item, sizes) for item in named)

    def with_dynamic_once(self, backend: BackendReference, state: State) -> tuple[BackendReference, State]:
        """Return backend and state with `dynamic=` only once: if the backend has a value, the state loses its own."""
        if self.origin is Symbolic.GIVEN:
            backend = replace(backend, dynamic=True)
        if backend.dynamic is not None:
            config = tuple(entry for entry in state.config if entry[:2] not in SET_BY_DYNAMIC)
            state = replace(state, config=config)
        return backend, state


def _named(item: Input, expressions: tuple[str | None, ...]) -> Input:
    if not any(expressions):
        return item
    if isinstance(item, ScalarInput):  # a compiled function gets Python numbers
        return replace(item, symbol=expressions[0])
    return replace(item, meta=replace(item.meta, symbols=expressions))


def _valued(item: Input, sizes: dict[str, int]) -> Input:
    if isinstance(item, ScalarInput) and item.symbol in sizes and item.value is None:
        return replace(item, value=sizes[item.symbol])
    return item


def symbolic_sizes(gm: torch.fx.GraphModule, values: Sequence[Any], reads_floats: bool) -> Sizes:
    """Return the symbols of a graph's inputs. `values` are the backend's example inputs: real tensors and SymInts.

    `reads_floats`: the graph reads floats of the script's from tensors, as it does if they are symbols.
    """
    nodes = gm.graph.find_nodes(op="placeholder")
    examples = [node.meta.get("example_value", node.meta.get("val")) for node in nodes]
    symbols = symbols_of(examples)
    if not symbols and not reads_floats:
        return Sizes()
    expressions = tuple(_expressions(example) for example in examples)
    return Sizes(
        _origin(expressions, examples, values), tuple(Symbol(name, hint) for name, hint in symbols.items()), expressions
    )


def _expressions(example: Any) -> tuple[str | None, ...]:
    return tuple(map(expression_of, example.shape if isinstance(example, torch.Tensor) else (example,)))


def _origin(expressions: Sequence[tuple[str | None, ...]], examples: Sequence[Any], values: Sequence[Any]) -> Symbolic:
    if assumes_dynamic():
        return Symbolic.GIVEN
    marked: set[str] = set()
    unmarked: set[str] = set()
    for names, value in zip(expressions, values, strict=False):
        if not isinstance(value, torch.Tensor):
            continue
        marks = marked_dims(value)
        for dim, name in enumerate(names):
            if name is not None:
                (marked if dim in marks else unmarked).add(name)
    numbers = {name for example in examples if (name := expression_of(example)) is not None and is_plain(name)}
    all_marked = marked and not (unmarked | numbers) - marked
    return Symbolic.MARKED if all_marked else Symbolic.AUTOMATIC
