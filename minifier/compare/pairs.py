"""The tensors of a compiled and an eager result that are judged by their values."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from minifier.compare.judge import Judgement, Sample, eps_of, visible_elements
from minifier.compare.results import Results, is_float
from minifier.failure import Aspect, Difference, ElementPair

_MAX_ELEMENTS = 4

Key = tuple[str, int]  # ("output" | "input" | "gradient", position)


@dataclass
class TensorPair:
    """A compiled tensor and eager's, of equal shape; `where` is their name for the user."""

    where: str
    aspect: Aspect
    compiled: torch.Tensor
    eager: torch.Tensor


def differing_pairs(
    compiled: Results, eager: Results, names: Sequence[str], ignored: Collection[Aspect]
) -> dict[Key, TensorPair]:
    """Return the tensors to judge by their values: same shape, but not bit for bit equal."""
    pairs: dict[Key, TensorPair] = {}
    groups: tuple[tuple[str, Aspect, list[Any], list[Any]], ...] = (
        ("output", Aspect.VALUES, compiled.outputs, eager.outputs),
        ("input", Aspect.MUTATION, compiled.inputs, eager.inputs),
        ("gradient", Aspect.GRADIENT, compiled.gradients, eager.gradients),
    )
    for group, aspect, compiled_values, eager_values in groups:
        if {aspect, Aspect.NON_FINITE} <= set(ignored):
            continue
        for i, (c, e) in enumerate(zip(compiled_values, eager_values, strict=False)):
            if group == "gradient":
                c = torch.zeros_like(e) if c is None and e is not None else c  # noqa: PLW2901
                e = torch.zeros_like(c) if e is None and c is not None else e  # noqa: PLW2901
            if not isinstance(c, torch.Tensor) or not isinstance(e, torch.Tensor):
                continue
            if c.shape != e.shape or c.device != e.device or not e.numel():
                continue
            if c.dtype != e.dtype or not are_identical(c, e):
                where = f"output {i}" if group == "output" else _where(group, names[i])
                pairs[group, i] = TensorPair(where, aspect, _dense(c), _dense(e))
    return pairs


def _where(group: str, name: str) -> str:
    return f"input {name} after the call" if group == "input" else f"gradient of {name}"


def _dense(tensor: torch.Tensor) -> torch.Tensor:
    return tensor if tensor.layout == torch.strided else tensor.to_dense()


def are_identical(c: torch.Tensor, e: torch.Tensor) -> bool:
    """Whether all elements are equal; NaN equals NaN."""
    c, e = _dense(c), _dense(e)
    same = (c == e) | (c.isnan() & e.isnan()) if is_float(e) else c == e
    return bool(same.all())


def value_of(results: Results | None, key: Key, pair: TensorPair) -> torch.Tensor | None:
    """Return another run's tensor for this pair, or None if its shape differs."""
    if results is None:
        return None
    group, i = key
    values = {"output": results.outputs, "input": results.inputs, "gradient": results.gradients}[group]
    value = values[i] if i < len(values) else None
    if value is None and group == "gradient":
        return torch.zeros_like(pair.eager)
    if not isinstance(value, torch.Tensor) or value.shape != pair.eager.shape:
        return None
    return _dense(value)


def difference_of(pair: TensorPair, judgement: Judgement) -> Difference:
    """Describe a wrong tensor."""
    return replace(_described(pair, judgement), has_nan=is_float(pair.eager) and bool(pair.eager.isnan().any()))


def _described(pair: TensorPair, judgement: Judgement) -> Difference:
    error, own, noise = judgement.error, judgement.eager_error, judgement.noise
    elements = furthest_elements(pair.compiled, pair.eager)
    if judgement.non_finite:
        count = int((pair.compiled.isfinite() != pair.eager.isfinite()).sum()) or int(
            pair.eager.isfinite().logical_not().sum()
        )
        sentence = f"{pair.where} has other NaNs or infinities than eager in {count} of {pair.eager.numel()} elements"
        return Difference(Aspect.NON_FINITE, pair.where, sentence, error, own, noise, elements)
    if not is_float(pair.eager):
        count = int((pair.compiled != pair.eager).sum())
        sentence = f"{pair.where} differs from eager's in {count} of {pair.eager.numel()} elements"
        return Difference(pair.aspect, pair.where, sentence, error, own, noise, elements)
    if own:
        sentence = f"{pair.where} is off from double precision by {error:.2g}, eager by {own:.2g}"
    else:
        sentence = f"{pair.where} is off from eager's by {error:.2g}"
    if noise:  # exactly read inputs were not moved
        sentence += f"; a few rounding errors in the inputs move eager by {noise:.2g}"
    return Difference(pair.aspect, pair.where, sentence, error, own, noise, elements)


def excused_difference(pair: TensorPair, judgement: Judgement, samples: Sequence[Sample]) -> Difference | None:
    """Describe a difference that eager's own variation excuses; None if only rounding or unwritten memory differ.

    Unwritten memory is NaN in one of the samples, and a number in eager or in another.
    """
    visible = visible_elements(pair.compiled, pair.eager)
    moved = torch.zeros_like(visible)
    for sample in samples:
        moved |= visible_elements(sample.value, pair.eager)
    if is_float(pair.eager) and samples:
        nans = torch.stack([_real(sample.value).isnan() for sample in samples])
        visible &= ~(nans.any(0) & ~(nans.all(0) & _real(pair.eager).isnan()))
    count = int(visible.sum())
    if not count:
        return None
    total = visible.numel()
    steps = f"when inputs and rounded results move by {max((s.steps for s in samples), default=1.0):g} eps"
    changes = f"; eager itself changes in {int(moved.sum())} {steps}" if samples else ""
    if not is_float(pair.eager):
        sentence = f"{pair.where} differs from eager's in {count} of {total} elements{changes}"
        return Difference(pair.aspect, pair.where, sentence)
    error, own = _distance(pair.compiled, pair.eager), judgement.eager_error
    if math.isinf(error):
        sentence = f"{pair.where} has other NaNs or infinities than eager in {count} of {total} numbers{changes}"
        return Difference(Aspect.NON_FINITE, pair.where, sentence)
    noise = max((_distance(sample.value, pair.eager) for sample in samples), default=None)
    sentence = f"{pair.where} differs from eager's by {error:.3g} in {count} of {total} numbers"
    if noise is not None:
        sentence += f"; eager itself moves by {noise:.3g} {steps}"
    return Difference(
        pair.aspect, pair.where, f"{sentence}; it is off by {own:.3g} from double precision", error, own, noise
    )


def _real(value: torch.Tensor) -> torch.Tensor:
    return (torch.view_as_real(value.resolve_conj()) if value.is_complex() else value).flatten()


def _distance(value: torch.Tensor, other: torch.Tensor) -> float:
    """Return the largest distance between two elements; infinite where non-finite elements differ."""
    a, b = _real(value).double(), _real(other).double()
    distance = torch.where((a == b) | (a.isnan() & b.isnan()), 0.0, (a - b).abs())
    return float(distance.nan_to_num(nan=float("inf"), posinf=float("inf")).max()) if distance.numel() else 0.0


def furthest_elements(compiled: torch.Tensor, eager: torch.Tensor) -> tuple[ElementPair, ...]:
    """Return up to four differing elements of tensors of equal shape, by their distance; NaNs and infinities first."""
    c, e = compiled.detach().flatten(), eager.detach().flatten()
    if not e.numel():
        return ()
    wide = torch.complex128 if c.is_complex() or e.is_complex() else torch.float64
    distances = (c.to(wide) - e.to(wide)).abs()
    distances[distances.isnan()] = math.inf
    distances[(c == e) | (c.isnan() & e.isnan())] = -1.0  # no difference; large integers may differ by 0.0
    found, places = distances.topk(min(_MAX_ELEMENTS, distances.numel()))
    return tuple(
        ElementPair(_index(int(place), eager.shape), _digits(c[place]), _digits(e[place]), _ulps(float(far), e[place]))
        for far, place in zip(found, places, strict=True)
        if far >= 0
    )


def _index(place: int, shape: torch.Size) -> tuple[int, ...]:
    index = []
    for size in reversed(shape):
        place, position = divmod(place, size)
        index.append(position)
    return tuple(reversed(index))


def _digits(element: torch.Tensor) -> str:
    """Return the element with as many digits as tell it from its neighbours."""
    value: Any = element.item()
    if not is_float(element):
        return str(value)
    digits = 1 + math.ceil(-math.log10(eps_of(element.dtype)))
    return f"{value:.{digits}g}"


def _ulps(distance: float, eager: torch.Tensor) -> float | None:
    """Return the distance in units in the last place of eager's element; None if that has no meaning.

    It has none for a number so close to zero that its digits are fewer, and in other than floating point numbers.
    """
    if not eager.is_floating_point() or not math.isfinite(distance):
        return None
    limits, size = torch.finfo(eager.dtype), abs(float(eager))
    if size < limits.smallest_normal:
        return None
    _, exponent = math.frexp(size)
    return distance / math.ldexp(float(limits.eps), exponent - 1)
