"""Fake inputs of an ATen graph with symbolic sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from minifier.case import Case, ScalarInput, Symbol, Symbolic, TensorInput
from minifier.case.expressions import is_plain, is_unbacked, symbols_in, value_of
from minifier.torch_private import SymbolicSizes

_FUNCTIONS: dict[str, Callable[..., Any]] = {"Max": torch.sym_max, "Min": torch.sym_min}


def sizes_of(case: Case) -> dict[str, int]:
    """Return the values of the symbols that are the whole size of an input, by name."""
    return {
        expression: size
        for item in case.inputs
        if isinstance(item, TensorInput)
        for expression, size in zip(item.meta.symbols, item.meta.shape, strict=False)
        if expression is not None and is_plain(expression)
    }


def symbolic_inputs(case: Case, values: Sequence[Any]) -> tuple[SymbolicSizes, list[Any]]:
    """Return the symbols, and a fake tensor or SymInt for each of these real values.

    A size whose expression cannot be evaluated is an ordinary number.
    """
    sizes = SymbolicSizes()
    symbols = _make_symbols(case, sizes)

    def number(expression: str | None, value: Any) -> Any:
        if expression is None:
            return value
        symbolic = value_of(expression, symbols, _FUNCTIONS)
        return value if symbolic is None else symbolic

    fakes = []
    for item, value in zip(case.inputs, values, strict=True):
        if isinstance(item, ScalarInput):
            fakes.append(number(item.symbol, value))
            continue
        expressions = item.meta.symbols or (None,) * len(item.meta.shape)
        shape = [number(e, size) for e, size in zip(expressions, item.meta.shape, strict=True)]
        fakes.append(sizes.tensor(item.name, value, shape))
    return sizes, fakes


def _make_symbols(case: Case, sizes: SymbolicSizes) -> dict[str, Any]:
    """Return the symbols that the inputs name: sizes of an input, or separate integers."""
    size_values = sizes_of(case)
    facts = {symbol.name: symbol for symbol in case.symbols}
    dynamic = case.symbolic is Symbolic.GIVEN
    symbols: dict[str, Any] = {}
    for item in case.inputs:
        expressions = item.meta.symbols if isinstance(item, TensorInput) else (item.symbol,)
        for name in (name for expression in expressions if expression is not None for name in symbols_in(expression)):
            if name in symbols:
                continue
            fact = facts.get(name) or Symbol(name, None)
            if is_unbacked(name):
                symbols[name] = sizes.unbacked(name)
            elif name in size_values:
                symbols[name] = sizes.size(name, size_values[name], duck=dynamic, low=fact.low, high=fact.high)
            elif isinstance(item, ScalarInput) and item.symbol == name and type(item.value) is int:
                symbols[name] = sizes.number(name, item.value, fact.low, fact.high)
            elif isinstance(fact.hint, int):
                symbols[name] = sizes.number(name, fact.hint, fact.low, fact.high)
    return symbols
