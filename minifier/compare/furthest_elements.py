"""The elements of a wrong tensor that are furthest from eager's, for the report."""

from __future__ import annotations

import math
from typing import Any

import torch

from minifier.compare.judge import eps_of
from minifier.compare.results import is_float
from minifier.failure import ElementPair

_MAX_ELEMENTS = 4


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
