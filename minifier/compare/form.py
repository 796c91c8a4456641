"""Exact comparisons: the outputs' number and nesting, shapes, dtypes, devices, strides and aliases."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from minifier.compare.results import Results
from minifier.failure import Aspect, Difference


def _strides(tensor: torch.Tensor) -> list[int]:
    return [step for size, step in zip(tensor.shape, tensor.stride(), strict=True) if size > 1]


def _in_parentheses(values: Sequence[Any]) -> str:
    return f"({', '.join(map(str, values))})"


def _leaf(where: str, c: Any, e: Any) -> Iterator[Difference]:
    if not isinstance(c, torch.Tensor) or not isinstance(e, torch.Tensor):
        if isinstance(c, torch.Tensor) or isinstance(e, torch.Tensor) or (c is None) != (e is None):
            types = [type(value).__name__ for value in (c, e)]
            yield Difference(Aspect.STRUCTURE, where, f"{where} is a {types[0]}, in eager a {types[1]}")
        elif isinstance(c, float) and isinstance(e, float):
            if not (math.isclose(c, e, rel_tol=1e-5, abs_tol=1e-12) or (math.isnan(c) and math.isnan(e))):
                yield Difference(Aspect.VALUES, where, f"{where} is {c!r}, in eager {e!r}", error=abs(c - e))
        elif isinstance(c, (int, float, str)) and c != e:
            yield Difference(Aspect.VALUES, where, f"{where} is {c!r}, in eager {e!r}")
        return
    if c.shape != e.shape:
        sentence = f"{where} has the shape {_in_parentheses(c.shape)}, in eager {_in_parentheses(e.shape)}"
        yield Difference(Aspect.SHAPE, where, sentence)
    if c.dtype != e.dtype:
        dtypes = [str(t.dtype).removeprefix("torch.") for t in (c, e)]
        yield Difference(Aspect.DTYPE, where, f"{where} is of type {dtypes[0]}, in eager of {dtypes[1]}")
    if c.device != e.device:
        yield Difference(Aspect.DEVICE, where, f"{where} is on {c.device}, in eager on {e.device}")
    if c.layout != e.layout:
        yield Difference(Aspect.STRIDE, where, f"{where} is {c.layout}, in eager {e.layout}")
    elif c.shape == e.shape and c.layout == torch.strided and c.numel() and _strides(c) != _strides(e):
        sentence = f"{where} has the strides {_in_parentheses(c.stride())}, in eager {_in_parentheses(e.stride())}"
        yield Difference(Aspect.STRIDE, where, sentence)


def _autograd(requires_grad: bool, is_leaf: bool) -> str:
    if not requires_grad:
        return "does not require grad"
    return "is a leaf that requires grad" if is_leaf else "requires grad and has a grad_fn"


def _aliases(c: Results, e: Results, names: Sequence[str]) -> Iterator[Difference]:
    for i, (c_inputs, e_inputs) in enumerate(zip(c.from_inputs, e.from_inputs, strict=True)):
        where = f"output {i}"
        if c_inputs != e_inputs:
            missed, extra = (sorted(names[j] for j in group) for group in (e_inputs - c_inputs, c_inputs - e_inputs))
            clauses = [f"does not share memory with the input {name}, in eager it does" for name in missed]
            clauses += [f"shares memory with the input {name}, in eager it does not" for name in extra]
            yield Difference(Aspect.ALIASING, where, f"{where} {'; '.join(clauses)}")
            continue
        partner = next((j for j in range(i) if c.together[j] == c.together[i]), None)
        if partner is not None and e.together[partner] != e.together[i]:
            sentence = f"{where} shares memory with output {partner}, in eager it does not"
            yield Difference(Aspect.ALIASING, where, sentence)


def _nesting(results: Results) -> str:
    """Return the nesting in words: a tensor, a tuple of one, results nested as ((*, *), *)."""
    form, count = results.structure, len(results.outputs)
    if form == "*":
        return f"a {type(results.outputs[0]).__name__}".replace("a Tensor", "a tensor")
    if form == f"({', '.join('*' * count)})":
        return f"a tuple of {'one' if count == 1 else count}"
    return f"results nested as {form}"


def form_differences(compiled: Results, eager: Results, names: Sequence[str]) -> list[Difference]:
    """Return all differences except in the values of elements. `names` are the inputs' names."""
    if compiled.structure != eager.structure:
        counts = [len(r.outputs) for r in (compiled, eager)]
        sentence = (
            f"there are {counts[0]} outputs, in eager {counts[1]}"
            if counts[0] != counts[1]
            else f"the backend returned {_nesting(compiled)}, eager {_nesting(eager)}"
        )
        differences = [Difference(Aspect.STRUCTURE, "the outputs", sentence)]
        if counts[0] != counts[1]:
            return differences
    else:
        differences = []
    for i, (c, e) in enumerate(zip(compiled.outputs, eager.outputs, strict=True)):
        differences += _leaf(f"output {i}", c, e)
    differences += _aliases(compiled, eager, names)
    for i, (c_state, e_state) in enumerate(zip(compiled.autograd, eager.autograd, strict=True)):
        if c_state is not None and e_state is not None and c_state != e_state:
            sentence = f"output {i} {_autograd(*c_state)}, in eager it {_autograd(*e_state)}"
            differences.append(Difference(Aspect.AUTOGRAD, f"output {i}", sentence))
    for name, c, e in zip(names, compiled.inputs, eager.inputs, strict=True):
        if isinstance(c, torch.Tensor) and isinstance(e, torch.Tensor) and (c.shape, c.dtype) != (e.shape, e.dtype):
            where = f"input {name} after the call"
            in_eager = f"{e.dtype} of {_in_parentheses(e.shape)}"
            sentence = f"{where} is {c.dtype} of shape {_in_parentheses(c.shape)}, in eager {in_eager}"
            differences.append(Difference(Aspect.MUTATION, where, sentence))
    return differences
