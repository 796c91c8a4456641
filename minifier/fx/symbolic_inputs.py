"""A symbolic Case's example inputs, as Dynamo would hand them to the backend."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from minifier.case import Case, ScalarInput, Symbol, Symbolic, TensorInput
from minifier.case.expressions import is_plain, is_unbacked, symbols_in, value_of
from minifier.torch_private import SymbolicSizes

_FUNCTIONS: dict[str, Callable[..., Any]] = {"Max": torch.sym_max, "Min": torch.sym_min}


def sizes_of(case: Case) -> dict[str, int]:
    """The value of each symbol that is the size of an input alone, by its name."""
    return {
        expression: size
        for item in case.inputs
        if isinstance(item, TensorInput)
        for expression, size in zip(item.meta.symbols, item.meta.shape, strict=False)
        if expression is not None and is_plain(expression)
    }


def symbolic_inputs(case: Case, values: Sequence[Any]) -> tuple[SymbolicSizes, list[Any], list[Any]]:
    """(symbols, example inputs, example values of the placeholders) for real values of the Case's inputs.

    Example inputs are the real tensors, with a SymInt for each number that is symbolic; the placeholders'
    example values are fake tensors. A size whose expression cannot be made is the plain number.
    """
    made = SymbolicSizes()
    known = _make_symbols(case, made)

    def number(expression: str | None, value: Any) -> Any:
        if expression is None:
            return value
        found = value_of(expression, known, _FUNCTIONS)
        return value if found is None else found

    inputs, fakes = [], []
    for item, value in zip(case.inputs, values, strict=True):
        if isinstance(item, ScalarInput):
            inputs.append(number(item.symbol, value))
            fakes.append(inputs[-1])
            continue
        expressions = item.meta.symbols or (None,) * len(item.meta.shape)
        sizes = [number(e, size) for e, size in zip(expressions, item.meta.shape, strict=True)]
        inputs.append(value)
        fakes.append(made.tensor(item.name, value, sizes))
    return made, inputs, fakes


def _make_symbols(case: Case, made: SymbolicSizes) -> dict[str, Any]:
    """The symbols that the inputs name: sizes, where an input has it, else integers of their own."""
    sizes = sizes_of(case)
    facts = {symbol.name: symbol for symbol in case.symbols}
    given = case.symbolic is Symbolic.GIVEN
    known: dict[str, Any] = {}
    for item in case.inputs:
        wanted = item.meta.symbols if isinstance(item, TensorInput) else (item.symbol,)
        for name in (name for expression in wanted if expression is not None for name in symbols_in(expression)):
            if name in known:
                continue
            fact = facts.get(name) or Symbol(name, None)
            if is_unbacked(name):
                known[name] = made.unbacked(name)
            elif name in sizes:
                known[name] = made.size(name, sizes[name], duck=given, low=fact.low, high=fact.high)
            elif isinstance(item, ScalarInput) and item.symbol == name and type(item.value) is int:
                known[name] = made.number(name, item.value, fact.low, fact.high)
            elif isinstance(fact.hint, int):
                known[name] = made.number(name, fact.hint, fact.low, fact.high)
    return known
