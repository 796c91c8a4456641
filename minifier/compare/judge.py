"""Is a compiled tensor wrong? Its distance from the reference against eager's, and against how eager moves.

Nothing here runs a graph: tensors come in, a judgement goes out. notes/comparison.md has the reasons and the
measurements behind the constants.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

PROPORTION = 10.0  # so many times eager's own error is out of proportion
OF_NOISE = 4.0  # and so many times what eager moves by when its inputs move by a rounding error
OF_DRAWS = 4.0  # the same where other random numbers were drawn
JUMP = 30.0  # an element that moves by more than this, in units of its neighbours' noise, has jumped
FLOOR = 0.25  # of eps: what correct rounding alone makes of the root mean square
FEW = 32  # elements, below which one run of eager may be exact, or hardly move, by luck
LOWEST = 8  # of eps: elements so close to overflow may fall on either side


@dataclass(frozen=True)
class Sample:
    """What eager gave with its inputs moved by `steps` times eps."""

    value: torch.Tensor
    steps: float


@dataclass(frozen=True)
class Judgement:
    """Largest distances over the elements that were compared: of the compiled result from the reference, of
    eager's, and of eager from itself with moved inputs. `few` says that the verdict rests on few elements."""

    error: float
    eager_error: float
    noise: float | None
    wrong: bool
    non_finite: bool = False
    few: bool = False


def _numbers(value: torch.Tensor) -> torch.Tensor:
    value = value.detach()
    if value.is_complex():
        value = torch.view_as_real(value.to(torch.complex128).resolve_conj())
    return value.to(torch.float64).flatten()


def _kinds(value: torch.Tensor) -> torch.Tensor:
    """0 for a number, 1 and 2 for the infinities, 3 for NaN."""
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
    """The distance from one to the next number of this type; of complex types that of their parts."""
    return float(torch.finfo(dtype).eps)


def _jumped(eager: torch.Tensor, moved: torch.Tensor, steps: float, eps: float) -> torch.Tensor:
    """Elements that moved far more than the others did: a rounding error decided between two values."""
    distance = (moved - eager).abs()
    finite = distance[distance.isfinite()]
    if not finite.numel():
        return torch.ones_like(distance, dtype=torch.bool)
    ordinary = float(finite.kthvalue(1 + int(0.9 * (finite.numel() - 1))).values)
    least = steps * eps * (eager.abs() + _rms(eager[eager.isfinite()]))
    return ~(distance <= JUMP * (ordinary + least))


def judge_floats(
    compiled: torch.Tensor, eager: torch.Tensor, reference: torch.Tensor | None, samples: Sequence[Sample] = ()
) -> Judgement:
    """Of tensors of one shape; without a reference eager is its own, and samples are needed to judge."""
    eps = eps_of(eager.dtype)
    limit = torch.finfo(eager.dtype).max * (1 - LOWEST * eps)
    c, e = _numbers(compiled), _numbers(eager)
    r = e if reference is None else _numbers(reference)
    moved = [(_numbers(sample.value), sample.steps) for sample in samples]

    # An element that is not a number in the compiled result alone. Near overflow either is right.
    kinds, usual = _kinds(c), _kinds(e)
    settled = torch.ones_like(kinds, dtype=torch.bool)
    for value, steps in moved:
        settled &= (_kinds(value) == usual) & ~(_jumped(e, value, steps, eps) & (usual == 0))
    odd = (kinds != usual) & (kinds != _kinds(r)) & settled & ~((kinds != 0) & (r.abs() >= limit) & r.isfinite())
    non_finite = bool(odd.any())

    whole = settled & (kinds == 0) & (usual == 0) & r.isfinite()
    unsettled = int((~settled).sum())
    c, e, r = c[whole], e[whole], r[whole]
    moved = [(value[whole], steps) for value, steps in moved]
    far, own = (c - r).abs(), (e - r).abs()
    # Moved further than one step the noise is larger; of many elements those samples only tell which jump.
    noises = [(value - e).abs() / (steps if far.numel() >= FEW else 1.0) for value, steps in moved]
    noise_rms, noise_max = max(map(_rms, noises), default=0.0), max(map(_largest, noises), default=0.0)
    own_rms, own_max = _rms(own), _largest(own)
    if noises and own_rms > 100 * (noise_rms + eps * _rms(r)):
        # The reference computes something else than eager (other random numbers, a view of bits).
        far, own_rms, own_max = (c - e).abs(), 0.0, 0.0
    slack = 1.0 if reference is not None else 4.0
    allowed_rms = max(PROPORTION * max(own_rms, slack * FLOOR * eps * _rms(r)), OF_NOISE * noise_rms)
    allowed_max = max(PROPORTION * max(own_max, slack * FLOOR * eps * _largest(r)), OF_NOISE * noise_max)
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
        few=non_finite or spread < FEW or spread < 0.05 * far.numel(),
    )


def judge_exact(
    compiled: torch.Tensor, eager: torch.Tensor, reference: torch.Tensor | None, samples: Sequence[Sample] = ()
) -> Judgement:
    """Of integers and bools: each must be eager's, but for elements that a rounding error decides. Every run
    flips others of those, so that as many again are allowed."""
    c, e = compiled.flatten(), eager.flatten()
    unsettled = torch.zeros_like(e, dtype=torch.bool)
    for other in (*(sample.value for sample in samples), *((reference,) if reference is not None else ())):
        unsettled |= other.flatten() != e
    other_than_eager = c != e
    remaining = int((other_than_eager & ~unsettled).sum())
    distance = (c.double() - e.double()).abs()
    noise = _largest(distance[unsettled]) if samples else None
    wrong = remaining > 2 * int(unsettled.sum())
    return Judgement(_largest(distance), 0.0, noise, wrong, few=True)


def judge_within(compiled: torch.Tensor, eager: torch.Tensor, rtol: float, atol: float) -> Judgement:
    """As torch.testing.assert_close has it, but that NaN equals NaN."""
    wide = torch.complex128 if eager.is_complex() else torch.float64
    c, e = compiled.to(wide), eager.to(wide)
    wrong = not bool(torch.isclose(c, e, rtol=rtol, atol=atol, equal_nan=True).all())
    distance = (c - e).abs()
    finite = distance[distance.isfinite()]
    return Judgement(_largest(finite), 0.0, None, wrong)


def judge_draws(compiled: torch.Tensor, eager: torch.Tensor, others: Sequence[torch.Tensor]) -> Judgement:
    """Of a tensor that depends on random numbers, if the backend draws others than eager: only what is far from
    every draw of eager's is wrong."""
    c, e = _numbers(compiled), _numbers(eager)
    drawn = [_numbers(other) for other in others]
    settled = torch.ones_like(e, dtype=torch.bool)
    for value in drawn:
        settled &= value.isfinite() == e.isfinite()
    odd = (c.isfinite() != e.isfinite()) & settled
    whole = settled & c.isfinite() & e.isfinite()
    distances = [(value[whole] - e[whole]).abs() for value in drawn]
    far = (c[whole] - e[whole]).abs()
    noise_rms, noise_max = max(map(_rms, distances)), max(map(_largest, distances))
    scale = _rms(e[whole])
    non_finite = bool(odd.any()) and all(bool(value.isfinite().all()) for value in drawn)
    wrong = _rms(far) > OF_DRAWS * noise_rms + scale
    return Judgement(_largest(far), 0.0, noise_max, wrong or non_finite, non_finite, few=True)


def depends_on_draws(eager: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether a run with other random numbers differs by more than rounding."""
    if eager.shape != other.shape or not (eager.is_floating_point() or eager.is_complex()):
        return eager.shape != other.shape or not torch.equal(eager, other)
    e, o = _numbers(eager), _numbers(other)
    both = e.isfinite() & o.isfinite()
    return bool((e.isfinite() != o.isfinite()).any()) or (_rms((o - e)[both]) > 4 * eps_of(eager.dtype) * _rms(e[both]))


def is_near(compiled: torch.Tensor, eager: torch.Tensor, other: torch.Tensor) -> bool | None:
    """Whether the compiled result is so much nearer to eager's than a run with other random numbers is that it
    must have drawn the same; None if there are too few elements to tell."""
    if compiled.shape != eager.shape or other.shape != eager.shape:
        return None
    c, e, o = _numbers(compiled), _numbers(eager), _numbers(other)
    both = c.isfinite() & e.isfinite() & o.isfinite()
    c, e, o = c[both], e[both], o[both]
    if int((o != e).sum()) < 16:
        return None
    return _rms(c - e) < 0.1 * _rms(o - e)
