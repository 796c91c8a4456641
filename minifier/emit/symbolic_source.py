"""Symbolic sizes in a script: marked dynamic, or caused by an earlier call with another size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from minifier.case import Case, Input, ScalarInput, Symbolic, TensorInput
from minifier.case.compiled_sizes import inputs_at_compilation, inputs_with, values_of_symbols
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


def warm_up_calls(case: Case, names: Mapping[str, str], symbolic: Symbolic) -> tuple[str, ...]:
    """Return the calls ahead of the Case's own that make its numbers symbols, and that compile it with other sizes.

    Automatic symbols take a call with every symbol increased by 1, and every float halved. Other inputs stay the same.
    Raises NoRepro if a size has no known form.
    """
    compiling = inputs_at_compilation(case)
    calls = [_call(case, compiling, names, "compiles it with this size")] if compiling else []
    if symbolic is Symbolic.AUTOMATIC:
        values = values_of_symbols(compiling or case.inputs)
        others = map(_other, inputs_with(case.inputs, {symbol: value + 1 for symbol, value in values.items()}))
        what = "size" if any(isinstance(item, TensorInput) and item.meta.symbols for item in case.inputs) else "number"
        calls.insert(0, _call(case, tuple(others), names, f"another {what}: from now on it is a symbol"))
    return tuple(calls)


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
