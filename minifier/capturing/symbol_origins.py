"""Symbolic sizes of a graph that goes to a backend: which they are, and how they came about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from minifier.case import BackendReference, Input, ScalarInput, State, Symbol, Symbolic, TensorInput
from minifier.case.expressions import is_plain
from minifier.torch_private import assumes_dynamic, expression_of, marked_dims, symbols_of

# What `dynamic=` sets for the time of a compilation.
_SET_BY_DYNAMIC = {
    ("torch._dynamo.config", "assume_static_by_default"),
    ("torch._dynamo.config", "automatic_dynamic_shapes"),
}


@dataclass(frozen=True, slots=True)
class Sizes:
    """What is known of a graph's symbols. `expressions` has, for each placeholder, those of a tensor's sizes or of
    the number that it is."""

    origin: Symbolic | None = None
    symbols: tuple[Symbol, ...] = ()
    expressions: tuple[tuple[str | None, ...], ...] = ()

    def named(self, inputs: tuple[Input, ...]) -> tuple[Input, ...]:
        """The inputs with their expressions; a number that is the size of a tensor has its value."""
        if self.origin is None:
            return inputs
        made = [_named(item, found) for item, found in zip(inputs, self.expressions, strict=True)]
        seen = {
            expression: size
            for item in made
            if isinstance(item, TensorInput)
            for expression, size in zip(item.meta.symbols, item.meta.shape, strict=False)
            if expression is not None
        }
        return tuple(_valued(item, seen) for item in made)

    def told(self, backend: BackendReference, state: State) -> tuple[BackendReference, State]:
        """Backend and state with `dynamic=` said in one place."""
        if self.origin is Symbolic.GIVEN:
            backend = replace(backend, dynamic=True)
        if backend.dynamic is not None:
            config = tuple(entry for entry in state.config if entry[:2] not in _SET_BY_DYNAMIC)
            state = replace(state, config=config)
        return backend, state


def _named(item: Input, expressions: tuple[str | None, ...]) -> Input:
    if not any(expressions):
        return item
    if isinstance(item, ScalarInput):  # a compiled function is called with plain numbers
        return replace(item, symbol=expressions[0])
    return replace(item, meta=replace(item.meta, symbols=expressions))


def _valued(item: Input, seen: dict[str, int]) -> Input:
    if isinstance(item, ScalarInput) and item.symbol in seen and item.value is None:
        return replace(item, value=seen[item.symbol])
    return item


def symbolic_sizes(gm: torch.fx.GraphModule, values: Sequence[Any]) -> Sizes:
    """The symbols of a graph's inputs. `values` are the backend's example inputs: real tensors, and SymInts."""
    nodes = gm.graph.find_nodes(op="placeholder")
    examples = [node.meta.get("example_value", node.meta.get("val")) for node in nodes]
    symbols = symbols_of(examples)
    if not symbols:
        return Sizes()
    expressions = tuple(_expressions(example) for example in examples)
    return Sizes(_origin(expressions, examples, values), tuple(Symbol(*facts) for facts in symbols), expressions)


def _expressions(example: Any) -> tuple[str | None, ...]:
    return tuple(map(expression_of, example.shape if isinstance(example, torch.Tensor) else (example,)))


def _origin(expressions: Sequence[tuple[str | None, ...]], examples: Sequence[Any], values: Sequence[Any]) -> Symbolic:
    if assumes_dynamic():
        return Symbolic.GIVEN
    marked: set[str] = set()
    dims: set[str] = set()
    for names, value in zip(expressions, values, strict=False):
        if not isinstance(value, torch.Tensor):
            continue
        marks = marked_dims(value)
        for dim, name in enumerate(names):
            if name is not None:
                (marked if dim in marks else dims).add(name)
    numbers = {name for example in examples if (name := expression_of(example)) is not None and is_plain(name)}
    all_marked = marked and not (dims | numbers) - marked
    return Symbolic.MARKED if all_marked else Symbolic.AUTOMATIC
