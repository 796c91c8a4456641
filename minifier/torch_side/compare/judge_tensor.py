"""Judge whether a compiled tensor is wrong: compare its error with eager's error and with eager's noise.

Pure functions of tensors; no graph runs here. notes/comparison.md has the reasons and measurements behind the
constants.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

MAX_EAGER_ERROR_RATIO = 10.0  # a larger error, as a multiple of eager's own, is wrong
MAX_NOISE_RATIO = 4.0  # as a multiple of eager's change when its inputs move by a rounding error
MAX_DRAW_RATIO = 4.0  # as a multiple of eager's change with other random numbers
_MAX_UNEVENNESS = 2.5  # of draws that are compared with each other
_MIN_SPREAD = 1e-3  # of the elements' size; less may be rounding
_MIN_ELEMENTS_OF_SPREAD = 16  # of a tensor whose elements show how much they vary
JUMP_RATIO = 30.0  # an element that moves more, as a multiple of its neighbours' noise, has jumped
ROUNDING_RMS_EPS = 0.25  # root mean square error of correct rounding, in eps
SURE_ELEMENTS = 32  # with fewer, one run of eager may be exact, or hardly move, by luck
OVERFLOW_MARGIN_EPS = 8  # so close to overflow, relative to the largest number, an element may be finite or not


@dataclass(frozen=True)
class Sample:
    """Eager's result with inputs moved by `steps` times eps."""

    value: torch.Tensor
    steps: float


@dataclass(frozen=True)
class Judgement:
    """A verdict, with the largest error over the compared elements.

    `error` and `eager_error` are distances from the reference. `noise` is eager's change with moved inputs. `few` says
    that few elements decide. `limit` is the largest error that would be right, None if there is no such number.
    """

    error: float
    eager_error: float
    noise: float | None
    wrong: bool
    non_finite: bool = False
    few: bool = False
    limit: float | None = None


def _numbers(value: torch.Tensor) -> torch.Tensor:
    value = value.detach()
    if value.is_complex():
        value = torch.view_as_real(value.to(torch.complex128).resolve_conj())
    return value.to(torch.float64).flatten()


def _kinds(value: torch.Tensor) -> torch.Tensor:
    """Return 0 for finite elements, 1 and 2 for the infinities, 3 for NaN."""
    kinds = torch.zeros(value.shape, dtype=torch.int8, device=value.device)
    kinds[value == float("inf")] = 1
    kinds[value == float("-inf")] = 2
    kinds[value.isnan()] = 3
    return kinds


def _rms(value: torch.Tensor) -> float:
    return float(value.square().mean().sqrt()) if value.numel() else 0.0


def _largest(value: torch.Tensor) -> float:
    return float(value.abs().max()) if value.numel() else 0.0


def eps_of(dtype: torch.dtype) -> float:
    """Return the distance from 1 to the dtype's next number; for complex dtypes, the real component's."""
    return float(torch.finfo(dtype).eps)


def _jumped(eager: torch.Tensor, moved: torch.Tensor, steps: float, eps: float) -> torch.Tensor:
    """Mark the elements that moved far more than the rest: a rounding error decided between two values."""
    distance = (moved - eager).abs()
    finite = distance[distance.isfinite()]
    if not finite.numel():
        return torch.ones_like(distance, dtype=torch.bool)
    percentile_90 = float(finite.kthvalue(1 + int(0.9 * (finite.numel() - 1))).values)
    rounding = steps * eps * (eager.abs() + _rms(eager[eager.isfinite()]))
    return ~(distance <= JUMP_RATIO * (percentile_90 + rounding))


def judge_floats(
    compiled: torch.Tensor, eager: torch.Tensor, reference: torch.Tensor | None, samples: Sequence[Sample] = ()
) -> Judgement:
    """Judge tensors of equal shape. Without a reference, eager's result is the reference, and samples are needed."""
    eps = eps_of(eager.dtype)
    limit = torch.finfo(eager.dtype).max * (1 - OVERFLOW_MARGIN_EPS * eps)
    c, e = _numbers(compiled), _numbers(eager)
    r = e if reference is None else _numbers(reference)
    moved = [(_numbers(sample.value), sample.steps) for sample in samples]

    # Elements that are finite in one result alone. Near overflow both are right.
    kinds, eager_kinds = _kinds(c), _kinds(e)
    settled = torch.ones_like(kinds, dtype=torch.bool)
    for value, steps in moved:
        settled &= (_kinds(value) == eager_kinds) & ~(_jumped(e, value, steps, eps) & (eager_kinds == 0))
    overflow = (kinds != 0) & (r.abs() >= limit) & r.isfinite()
    non_finite = bool(((kinds != eager_kinds) & (kinds != _kinds(r)) & settled & ~overflow).any())

    judged = settled & (kinds == 0) & (eager_kinds == 0) & r.isfinite()
    unsettled = int((~settled).sum())
    c, e, r = c[judged], e[judged], r[judged]
    moved = [(value[judged], steps) for value, steps in moved]
    far, own = (c - r).abs(), (e - r).abs()
    # Inputs moved by several steps make larger noise. With many elements it is scaled to one step: such samples then
    # only tell which elements jump.
    noises = [(value - e).abs() / (steps if far.numel() >= SURE_ELEMENTS else 1.0) for value, steps in moved]
    noise_rms, noise_max = max(map(_rms, noises), default=0.0), max(map(_largest, noises), default=0.0)
    own_rms, own_max = _rms(own), _largest(own)
    if noises and own_rms > 100 * (noise_rms + eps * _rms(r)):
        # The reference computes another function than eager (other random numbers, a view of bits).
        far, own_rms, own_max = (c - e).abs(), 0.0, 0.0
    slack = 1.0 if reference is not None else 4.0
    rounding_rms, rounding_max = (slack * ROUNDING_RMS_EPS * eps * size for size in (_rms(r), _largest(r)))
    allowed_rms = max(MAX_EAGER_ERROR_RATIO * max(own_rms, rounding_rms), MAX_NOISE_RATIO * noise_rms)
    allowed_max = max(MAX_EAGER_ERROR_RATIO * max(own_max, rounding_max), MAX_NOISE_RATIO * noise_max)
    beyond = far > allowed_max
    outliers = int(beyond.sum())
    if 0 < outliers <= unsettled:  # as many jumps as eager makes
        far = far[~beyond]
        outliers = 0
    wrong = outliers > 0 or _rms(far) > allowed_rms
    spread = int((far > allowed_rms).sum())
    return Judgement(
        error=_largest(far),
        eager_error=own_max,
        noise=noise_max if samples else None,
        wrong=wrong or non_finite,
        non_finite=non_finite,
        few=non_finite or spread < SURE_ELEMENTS or spread < 0.05 * far.numel(),
        limit=allowed_max,
    )


def visible_elements(compiled: torch.Tensor, eager: torch.Tensor) -> torch.Tensor:
    """Mark the elements that differ in more than half of their digits, by the size of the tensor's elements.

    For integers and bools, mark all elements that differ.
    """
    if not (eager.is_floating_point() or eager.is_complex()):
        return (compiled != eager).flatten()
    c, e = _numbers(compiled), _numbers(eager)
    digits = eps_of(eager.dtype) ** 0.5 * _rms(e[e.isfinite()])
    visible: torch.Tensor = (_kinds(c) != _kinds(e)) | ((c - e).abs() > digits)
    return visible


def is_visible(compiled: torch.Tensor, eager: torch.Tensor) -> bool:
    """Whether any element differs in more than half of its digits."""
    return bool(visible_elements(compiled, eager).any())


def judge_exact(
    compiled: torch.Tensor, eager: torch.Tensor, reference: torch.Tensor | None, samples: Sequence[Sample] = ()
) -> Judgement:
    """Judge integers and bools: all must equal eager's, except elements that a rounding error decides.

    Every run flips different elements of this kind, so twice as many as were seen may differ.
    """
    c, e = compiled.flatten(), eager.flatten()
    unsettled = torch.zeros_like(e, dtype=torch.bool)
    for value in (*(sample.value for sample in samples), *((reference,) if reference is not None else ())):
        unsettled |= value.flatten() != e
    remaining = int(((c != e) & ~unsettled).sum())
    distance = (c.double() - e.double()).abs()
    noise = _largest(distance[unsettled]) if samples else None
    wrong = remaining > 2 * int(unsettled.sum())
    return Judgement(_largest(distance), 0.0, noise, wrong, few=True)


def judge_within(compiled: torch.Tensor, eager: torch.Tensor, rtol: float, atol: float) -> Judgement:
    """Judge like torch.testing.assert_close, but NaN equals NaN."""
    wide = torch.complex128 if eager.is_complex() else torch.float64
    c, e = compiled.to(wide), eager.to(wide)
    wrong = not bool(torch.isclose(c, e, rtol=rtol, atol=atol, equal_nan=True).all())
    distance = (c - e).abs()
    finite = distance[distance.isfinite()]
    return Judgement(_largest(finite), 0.0, None, wrong)


def judge_draws(compiled: torch.Tensor, eager: torch.Tensor, others: Sequence[torch.Tensor]) -> Judgement:
    """Judge a tensor of random numbers that the backend draws differently from eager.

    `others` are eager's results with other draws. A result is wrong if it is much further from their mean than each of
    them, or if its elements vary much less, or more, than the elements of each. (Eager returns the difference of two
    draws; a backend that draws once returns zeros.)
    """
    c, e = _numbers(compiled), _numbers(eager)
    redrawn = [_numbers(other) for other in others]
    settled = torch.ones_like(e, dtype=torch.bool)
    for value in redrawn:
        settled &= value.isfinite() == e.isfinite()
    odd = (c.isfinite() != e.isfinite()) & settled
    judged = settled & c.isfinite() & e.isfinite()
    far = (c[judged] - e[judged]).abs()
    noise_max = max(_largest((value[judged] - e[judged]).abs()) for value in redrawn)
    non_finite = bool(odd.any()) and all(bool(value.isfinite().all()) for value in redrawn)
    drawn = torch.stack([value[judged] for value in (e, *redrawn)])
    wrong = _is_outlier(c[judged], drawn) or _varies_otherwise(c[judged], drawn)
    return Judgement(_largest(far), 0.0, noise_max, wrong or non_finite, non_finite, few=True)


def _is_outlier(compiled: torch.Tensor, drawn: torch.Tensor) -> bool:
    """Whether a result is further from the mean of eager's draws than each of them from the mean of the others.

    If some draws are much further than others, as of rare events, so may be the backend's.
    """
    total, count = drawn.sum(0), len(drawn)
    distances = sorted(_rms(value - (total - value) / (count - 1)) for value in drawn)
    is_even = distances[-1] <= MAX_DRAW_RATIO * distances[count // 2]
    rare = 0.0 if is_even else _rms(drawn)
    return _rms(compiled - total / count) > MAX_DRAW_RATIO * distances[-1] + rare


def _varies_otherwise(compiled: torch.Tensor, drawn: torch.Tensor) -> bool:
    """Whether the elements of a result vary far less, or far more, than in each of eager's draws."""
    spreads = [_rms(value - value.mean()) for value in drawn]
    if compiled.numel() < _MIN_ELEMENTS_OF_SPREAD or min(spreads) < _MIN_SPREAD * _rms(drawn):
        return False
    if max(spreads) > _MAX_UNEVENNESS * min(spreads):
        return False
    spread = _rms(compiled - compiled.mean())
    return spread * MAX_DRAW_RATIO < min(spreads) or spread > MAX_DRAW_RATIO * max(spreads)


def depends_on_draws(eager: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether a run with other random numbers differs by more than rounding."""
    if eager.shape != other.shape or not (eager.is_floating_point() or eager.is_complex()):
        return eager.shape != other.shape or not torch.equal(eager, other)
    e, o = _numbers(eager), _numbers(other)
    both = e.isfinite() & o.isfinite()
    rounding = 4 * eps_of(eager.dtype) * _rms(e[both])
    return bool((e.isfinite() != o.isfinite()).any()) or _rms((o - e)[both]) > rounding


def is_near(compiled: torch.Tensor, eager: torch.Tensor, other: torch.Tensor) -> bool | None:
    """Whether the compiled result drew eager's random numbers, judged by its distance from eager's result.

    `other` is eager's result with other random numbers. None if too few elements tell.
    """
    if compiled.shape != eager.shape or other.shape != eager.shape:
        return None
    c, e, o = _numbers(compiled), _numbers(eager), _numbers(other)
    both = c.isfinite() & e.isfinite() & o.isfinite()
    c, e, o = c[both], e[both], o[both]
    if int((o != e).sum()) < 16:
        return None
    return _rms(c - e) < 0.1 * _rms(o - e)
