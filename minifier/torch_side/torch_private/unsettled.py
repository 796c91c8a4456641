"""Run eager again: with the same random numbers, or other results for all that torch leaves undefined."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

_WIDER = {torch.float16: torch.float64, torch.bfloat16: torch.float64, torch.float32: torch.float64}


class OtherDraws(Exception):
    """A replaying run draws by other ops or shapes than the recorded run."""


@dataclass(frozen=True)
class Draw:
    """The random numbers of an op: its name, its results, and its written arguments, by position."""

    op: str
    results: tuple[Any, ...]
    written: tuple[tuple[int, torch.Tensor], ...]


def is_draw(func: Any) -> bool:
    """Whether an ATen op uses the random number generator."""
    return torch.Tag.nondeterministic_seeded in getattr(func, "tags", ())


def _written(func: Any, args: tuple[Any, ...]) -> list[int]:
    infos = [argument.alias_info for argument in func._schema.arguments[: len(args)]]
    return [i for i, info in enumerate(infos) if info is not None and info.is_write]


class Mode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A dispatch mode whose `call` wraps every op, including higher-order ones."""

    supports_higher_order_operators = True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self.call(func, args, kwargs or {})

    def call(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the op's result."""
        raise NotImplementedError


def _in_tuple(result: Any) -> Any:
    return result if isinstance(result, (tuple, list)) else (result,)


class NotingDraws(Mode):  # type: ignore[no-untyped-call]
    """Append the results of ops that use the random number generator to `draws`. It can be entered again."""

    def __init__(self, draws: list[Draw]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.draws = draws

    def call(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        result = func(*args, **kwargs)
        if is_draw(func):
            written = _written(func, args)
            copies = tuple(
                None if any(r is args[i] for i in written) else r.clone() if isinstance(r, torch.Tensor) else r
                for r in _in_tuple(result)
            )
            self.draws.append(Draw(func.name(), copies, tuple((i, args[i].clone()) for i in written)))
        return result


def _widened(value: Any) -> Any:
    return value.to(_WIDER.get(value.dtype, value.dtype)) if isinstance(value, torch.Tensor) else value


class GivingDraws(Mode):  # type: ignore[no-untyped-call]
    """Replace the results of random ops by recorded ones in double precision. It can be entered again.

    Raises OtherDraws if an op differs from the recorded op.
    """

    def __init__(self, draws: list[Draw]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._draws = iter(draws)

    def call(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not is_draw(func):
            return func(*args, **kwargs)
        draw = next(self._draws, None)
        if draw is None or draw.op != func.name() or any(args[i].shape != value.shape for i, value in draw.written):
            raise OtherDraws(func.name())
        for i, value in draw.written:
            args[i].copy_(value)
        written = iter(i for i, _ in draw.written)
        results = tuple(args[next(written)] if r is None else _widened(r) for r in draw.results)
        return results if len(func._schema.returns) > 1 else results[0]


_UNINITIALISED = {
    "aten::empty.memory_format",
    "aten::empty_strided",
    "aten::empty_like",
    "aten::empty_permuted",
    "aten::new_empty",
    "aten::new_empty_strided",
}
_ARBITRARY_ORDER: dict[str, Callable[..., int]] = {
    # Ops that order equal elements arbitrarily, and a function that returns their `dim`.
    "aten::sort": lambda args: args[1] if len(args) > 1 else -1,
    "aten::topk": lambda args: args[2] if len(args) > 2 else -1,
    "aten::kthvalue": lambda args: args[2] if len(args) > 2 else -1,
    "aten::median.dim": lambda args: args[1],
    "aten::mode": lambda args: args[1] if len(args) > 1 else -1,
}
# Vectorised as a polynomial with an absolute error, in eps.
_ABSOLUTE_ERROR_EPS = {"aten::erf": 4.0, "aten::erfc": 4.0}

# Ops that move, choose or create values without rounding them. Views are recognised by their schema.
_EXACT_NAMES = """
    clone copy to_copy cat stack index index_select index_copy index_fill index_put gather scatter take where
    masked_fill masked_select masked_scatter constant_pad_nd reflection_pad1d reflection_pad2d reflection_pad3d
    replication_pad1d replication_pad2d replication_pad3d repeat repeat_interleave flip roll embedding relu clamp
    clamp_min clamp_max hardtanh threshold threshold_backward maximum minimum fmax fmin max min amax amin aminmax
    sort topk kthvalue median nanmedian mode cummax cummin abs neg sign sgn round floor ceil trunc fill zero zeros
    zeros_like new_zeros ones ones_like new_ones full full_like new_full scalar_tensor arange eye tril triu
    diag_embed empty empty_like empty_strided empty_permuted new_empty new_empty_strided max_pool2d_with_indices
    max_pool3d_with_indices max_unpool2d im2col nan_to_num resize set lift_fresh lift_fresh_copy select_backward
    slice_backward select_scatter slice_scatter diagonal_scatter as_strided_scatter unique_dim unique2
    unique_consecutive native_dropout local_scalar_dense frexp ldexp heaviside copysign nextafter complex polar
"""
_EXACT = frozenset(_EXACT_NAMES.split())

# Ops that add up many numbers or products. Their rounding errors scale with the summands, not with the result: with
# inductor's sums of 4096 normal numbers, up to a quarter of eps times the sum of magnitudes.
_SUM_NAMES = """
    sum nansum mean cumsum mm addmm bmm baddbmm addbmm mv addmv addr dot vdot linear convolution index_add scatter_add
    embedding_dense_backward convolution_backward
"""
_SUMS = frozenset(_SUM_NAMES.split())
_SUM_ERROR_EPS = 1 / 8  # times the sum of magnitudes
_MAX_STEPS_OF_HALF = 4.0  # more would be no rounding any longer
_ACCUMULATION_EPS = torch.finfo(torch.float32).eps  # narrower dtypes are accumulated in float32


def _has_memory(value: torch.Tensor) -> bool:
    """Whether the elements are in memory, and can be written.

    A sparse tensor has its elements elsewhere. The zeros that forward-mode autograd makes for a derivative that
    vanishes have no memory: a write ends the process. Their products are computed with meta tensors.
    """
    return value.layout == torch.strided and not value.is_meta and not value._is_zerotensor()


def _written_backwards(
    into: Any, indices: list[Any], values: torch.Tensor, accumulate: bool = False
) -> tuple[Any, ...]:
    """Return the arguments of index_put, by one index, with the last write first: which one stays is undefined."""
    index, *others = indices
    if not others and not accumulate and index.dtype is torch.int64 and index.shape == values.shape[: index.dim()]:
        order = [*range(index.dim())]
        indices, values = [index.flip(order)], values.flip(order)
    return into, indices, values, accumulate


def _magnitude(value: Any) -> Any:
    is_number = isinstance(value, torch.Tensor) and (value.is_floating_point() or value.is_complex())
    return value.abs() if is_number else value


def _magnitudes(kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return keyword arguments with magnitudes, also of the factors `alpha` and `beta`."""
    return {key: abs(value) if key in ("alpha", "beta") else _magnitude(value) for key, value in kwargs.items()}


class Unsettled(Mode):  # type: ignore[no-untyped-call]
    """Change all results that torch leaves undefined. It can be entered again.

    Every op that rounds does so differently: each element of its result moves by `steps` times eps, in half types by at
    most 4, up or down, and a sum also by a fraction of its summands' magnitudes. Unwritten memory is `unwritten`, or 1
    in integers. Among equal elements, sort, topk, kthvalue, median and mode choose another. Of several
    values that index_put writes to one element, another one stays. erf and erfc are as inexact as torch's vectorised
    versions.
    """

    def __init__(self, steps: float = 1.0, seed: int = 0, unwritten: float = math.nan) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._steps, self._seed, self._unwritten = steps, seed, unwritten
        self._generators: dict[torch.device, torch.Generator] = {}

    def call(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not hasattr(func, "_schema") or not hasattr(func, "name"):
            return func(*args, **kwargs)  # a higher-order op
        name = str(func.name())
        base = name.partition("::")[2].partition(".")[0]
        if name in _ARBITRARY_ORDER and args[0].dim() and not kwargs:
            dim = _ARBITRARY_ORDER[name](args)
            values, positions = func(args[0].flip(dim), *args[1:])
            return values, args[0].shape[dim] - 1 - positions
        if base.strip("_") == "index_put":
            args, kwargs = _written_backwards(*args, **kwargs), {}
        result = func(*args, **kwargs)
        if name in _UNINITIALISED:
            result.fill_(self._unwritten if result.is_floating_point() or result.is_complex() else 1)
        elif base.strip("_") not in _EXACT and not is_draw(func):
            results = _in_tuple(result)
            magnitudes: Iterable[Any] = itertools.repeat(None)
            if base in _SUMS and not func._schema.is_mutable:
                magnitudes = _in_tuple(func(*map(_magnitude, args), **_magnitudes(kwargs)))
            for value, magnitude, returned in zip(results, magnitudes, func._schema.returns, strict=False):
                is_view = returned.alias_info is not None and not returned.alias_info.is_write
                if isinstance(value, torch.Tensor) and _has_memory(value) and not is_view:
                    if magnitude is not None:
                        self._move_sum(value, magnitude)
                    self.move(value)
                    if name in _ABSOLUTE_ERROR_EPS and value.is_floating_point():
                        value.add_(self._change(value) * _ABSOLUTE_ERROR_EPS[name])
        return result

    def _generator(self, device: torch.device) -> torch.Generator:
        if device not in self._generators:
            self._generators[device] = torch.Generator(device).manual_seed(self._seed)
        return self._generators[device]

    def _change(self, value: torch.Tensor) -> torch.Tensor:
        generator = self._generator(value.device)
        signs = torch.randint(0, 2, value.shape, generator=generator, device=value.device, dtype=torch.int8)
        return (signs * 2 - 1).to(value.dtype) * (self._steps_of(value) * torch.finfo(value.dtype).eps)

    def _steps_of(self, value: torch.Tensor) -> float:
        return self._steps if torch.finfo(value.dtype).bits >= 32 else min(self._steps, _MAX_STEPS_OF_HALF)

    def _move_sum(self, value: torch.Tensor, magnitude: torch.Tensor) -> None:
        """Move each element by a fraction of eps times the sum of magnitudes, `magnitude`.

        The fraction is random: with a constant fraction, the errors of two sums would cancel too well.
        """
        if not (value.is_floating_point() or value.is_complex()) or value.dtype.itemsize < 2 or not value.numel():
            return
        eps = min(torch.finfo(value.dtype).eps, _ACCUMULATION_EPS)
        error = magnitude.abs() * (_SUM_ERROR_EPS * self._steps_of(value) * eps)
        generator = self._generator(value.device)
        fraction = torch.rand(error.shape, generator=generator, device=error.device, dtype=torch.float32) * 2 - 1
        fraction += fraction.sign() * 0.5
        whole = (value == value.round()) & (value.abs() <= 64) if value.is_floating_point() else value == 0
        value.add_(torch.where(whole, 0.0, error * fraction).to(value.dtype))

    def move(self, value: torch.Tensor) -> None:
        """Move each element by `steps` times eps, up or down.

        Small whole numbers do not move: counts, masks and flags are exact.
        """
        if value.is_complex():
            value = torch.view_as_real(value)
        if not value.is_floating_point() or value.dtype.itemsize < 2 or not value.numel():
            return
        whole = (value == value.round()) & (value.abs() <= 64)
        value.mul_(torch.where(whole, 0.0, self._change(value)).to(value.dtype) + 1)


def move(value: torch.Tensor, steps: float, seed: int) -> None:
    """Move the elements of a dense tensor in place, like `Unsettled` moves the results of ops."""
    Unsettled(steps, seed).move(value)
