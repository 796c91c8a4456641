"""Symbolic sizes in a script: marked dynamic, caused by an earlier call with another size, or compiled with another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from minifier.case import Call, Case, Input, ScalarInput, TensorInput
from minifier.case.compiled_sizes import inputs_of, inputs_with, values_of_symbols
from minifier.emit.input_source import tensor_source
from minifier.interfaces.names import MARK_DYNAMIC


def marks(case: Case, names: Mapping[str, str]) -> tuple[str, ...]:
    """Return `torch._dynamo.mark_dynamic(x, 0)` for each input with a symbolic size."""
    statements = []
    for item in case.inputs:
        if isinstance(item, TensorInput):
            dims = [dim for dim, symbol in enumerate(item.meta.symbols) if symbol is not None]
            text = str(dims[0]) if len(dims) == 1 else str(dims)
            statements += [f"{MARK_DYNAMIC}({names[item.name]}, {text})"] if dims else []
    return tuple(statements)


def call_that_makes_symbols(case: Case, names: Mapping[str, str]) -> str:
    """Return the call ahead of all others of the Case's function that makes its numbers symbols.

    Every symbol is increased by 1, and every float halved. Other inputs stay the same. Raises NoRepro if a size has no
    known form.
    """
    first = next((call for call in case.before if call.graph is None), Call())
    inputs = inputs_of(case, replace(first, ones=None))
    values = values_of_symbols(inputs)
    others = map(_other, inputs_with(inputs, {symbol: value + 1 for symbol, value in values.items()}))
    what = "size" if any(isinstance(item, TensorInput) and item.meta.symbols for item in case.inputs) else "number"
    return _call(case, tuple(others), names, f"another {what}: from now on it is a symbol")


def call_with_other_inputs(case: Case, call: Call, names: Mapping[str, str]) -> str:
    """Return an earlier call of the Case's function with other sizes or values.

    Raises NoRepro if a size has no known form.
    """
    what = "this size" if call.has_other_sizes else "this number" if call.sizes else "these values"
    return _call(case, inputs_of(case, call), names, f"compiles it with {what}")


def _other(item: Input) -> Input:
    if isinstance(item, ScalarInput) and type(item.value) is float:
        return replace(item, value=item.value / 2 or 1.0)
    return item


def _call(case: Case, inputs: Sequence[Input], names: Mapping[str, str], comment: str) -> str:
    def argument(item: Input, own: Input) -> str:
        if item == own:
            return names[own.name]
        return tensor_source(item, case.state.default_dtype) if isinstance(item, TensorInput) else str(item.value)

    return f"compiled({', '.join(map(argument, inputs, case.inputs))})  # {comment}"
