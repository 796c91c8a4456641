"""What can be told apart exactly: the outputs' number and nesting, shapes, types, places, strides and aliases."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from minifier.compare.results import Results
from minifier.failure import Aspect, Difference


def _strides(tensor: torch.Tensor) -> list[int]:
    return [step for size, step in zip(tensor.shape, tensor.stride(), strict=True) if size > 1]


def _said(values: Sequence[Any]) -> str:
    return f"({', '.join(map(str, values))})"


def _leaf(where: str, c: Any, e: Any) -> Iterator[Difference]:
    if not isinstance(c, torch.Tensor) or not isinstance(e, torch.Tensor):
        if isinstance(c, torch.Tensor) or isinstance(e, torch.Tensor) or (c is None) != (e is None):
            named = [type(value).__name__ for value in (c, e)]
            yield Difference(Aspect.STRUCTURE, where, f"{where} is a {named[0]}, in eager a {named[1]}")
        elif isinstance(c, float) and isinstance(e, float):
            if not (math.isclose(c, e, rel_tol=1e-5, abs_tol=1e-12) or (math.isnan(c) and math.isnan(e))):
                yield Difference(Aspect.VALUES, where, f"{where} is {c!r}, in eager {e!r}", error=abs(c - e))
        elif isinstance(c, (int, float, str)) and c != e:
            yield Difference(Aspect.VALUES, where, f"{where} is {c!r}, in eager {e!r}")
        return
    if c.shape != e.shape:
        sentence = f"{where} has the shape {_said(c.shape)}, in eager {_said(e.shape)}"
        yield Difference(Aspect.SHAPE, where, sentence)
    if c.dtype != e.dtype:
        found, wanted = (str(t.dtype).removeprefix("torch.") for t in (c, e))
        yield Difference(Aspect.DTYPE, where, f"{where} is of type {found}, in eager of {wanted}")
    if c.device != e.device:
        yield Difference(Aspect.DEVICE, where, f"{where} is on {c.device}, in eager on {e.device}")
    if c.layout != e.layout:
        yield Difference(Aspect.STRIDE, where, f"{where} is {c.layout}, in eager {e.layout}")
    elif c.shape == e.shape and c.layout == torch.strided and c.numel() and _strides(c) != _strides(e):
        sentence = f"{where} has the strides {_said(c.stride())}, in eager {_said(e.stride())}"
        yield Difference(Aspect.STRIDE, where, sentence)


def _aliases(c: Results, e: Results, names: Sequence[str]) -> Iterator[Difference]:
    for i, (mine, theirs) in enumerate(zip(c.from_inputs, e.from_inputs, strict=True)):
        where = f"output {i}"
        if mine != theirs:
            missed, extra = (sorted(names[j] for j in which) for which in (theirs - mine, mine - theirs))
            said = [f"does not share memory with the input {name}, in eager it does" for name in missed]
            said += [f"shares memory with the input {name}, in eager it does not" for name in extra]
            yield Difference(Aspect.ALIASING, where, f"{where} {'; '.join(said)}")
            continue
        partner = next((j for j in range(i) if c.together[j] == c.together[i]), None)
        if partner is not None and e.together[partner] != e.together[i]:
            sentence = f"{where} shares memory with output {partner}, in eager it does not"
            yield Difference(Aspect.ALIASING, where, sentence)


def form_differences(compiled: Results, eager: Results, names: Sequence[str]) -> list[Difference]:
    """All differences but those of the elements' values; `names` are the inputs'."""
    if compiled.structure != eager.structure:
        counts = [len(r.outputs) for r in (compiled, eager)]
        sentence = (
            f"there are {counts[0]} outputs, in eager {counts[1]}"
            if counts[0] != counts[1]
            else f"the outputs are nested as {compiled.structure}, in eager as {eager.structure}"
        )
        found = [Difference(Aspect.STRUCTURE, "the outputs", sentence)]
        if counts[0] != counts[1]:
            return found
    else:
        found = []
    for i, (c, e) in enumerate(zip(compiled.outputs, eager.outputs, strict=True)):
        found += _leaf(f"output {i}", c, e)
    found += _aliases(compiled, eager, names)
    for i, (mine, theirs) in enumerate(zip(compiled.tangents, eager.tangents, strict=True)):
        if mine is None and theirs is not None:
            where = f"output {i}"
            found.append(Difference(Aspect.GRADIENT, where, f"{where} does not require grad, in eager it does"))
    for name, c, e in zip(names, compiled.inputs, eager.inputs, strict=True):
        if isinstance(c, torch.Tensor) and isinstance(e, torch.Tensor) and (c.shape, c.dtype) != (e.shape, e.dtype):
            where = f"input {name} after the call"
            sentence = f"{where} is {c.dtype} of shape {_said(c.shape)}, in eager {e.dtype} of {_said(e.shape)}"
            found.append(Difference(Aspect.MUTATION, where, sentence))
    return found
