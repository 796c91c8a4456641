"""Runs of eager under a dispatch mode: random numbers noted and given again, and nothing left to chance unseen."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

_WIDER = {torch.float16: torch.float64, torch.bfloat16: torch.float64, torch.float32: torch.float64}


class OtherDraws(Exception):
    """A run asked for other random numbers than those noted."""


@dataclass(frozen=True)
class Draw:
    """What one op drew: its name, its results, and the arguments that it wrote, by position."""

    op: str
    results: tuple[Any, ...]
    written: tuple[tuple[int, torch.Tensor], ...]


def _is_draw(func: Any) -> bool:
    return torch.Tag.nondeterministic_seeded in getattr(func, "tags", ())


def _written(func: Any, args: tuple[Any, ...]) -> list[int]:
    """Positions of the tensors that the op writes."""
    infos = [argument.alias_info for argument in func._schema.arguments[: len(args)]]
    return [i for i, info in enumerate(infos) if info is not None and info.is_write]


class _Mode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    supports_higher_order_operators = True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self.call(func, args, kwargs or {})

    def call(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        raise NotImplementedError


class _Noting(_Mode):  # type: ignore[no-untyped-call]
    def __init__(self, draws: list[Draw]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.draws = draws

    def call(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        result = func(*args, **kwargs)
        if _is_draw(func):
            written = _written(func, args)
            results = result if isinstance(result, (tuple, list)) else (result,)
            kept = tuple(
                None if any(r is args[i] for i in written) else r.clone() if isinstance(r, torch.Tensor) else r
                for r in results
            )
            self.draws.append(Draw(func.name(), kept, tuple((i, args[i].clone()) for i in written)))
        return result


def _widened(value: Any) -> Any:
    return value.to(_WIDER.get(value.dtype, value.dtype)) if isinstance(value, torch.Tensor) else value


class _Giving(_Mode):  # type: ignore[no-untyped-call]
    def __init__(self, draws: list[Draw]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._left = iter(draws)

    def call(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not _is_draw(func):
            return func(*args, **kwargs)
        draw = next(self._left, None)
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
    # which of equal elements comes first is not promised; the position of `dim` in each
    "aten::sort": lambda args: args[1] if len(args) > 1 else -1,
    "aten::topk": lambda args: args[2] if len(args) > 2 else -1,
    "aten::kthvalue": lambda args: args[2] if len(args) > 2 else -1,
    "aten::median.dim": lambda args: args[1],
    "aten::mode": lambda args: args[1] if len(args) > 1 else -1,
}


# Whose vectorised code is a polynomial that is good to a part of one, not of the result.
_ABSOLUTE = {"aten::erf": 4.0, "aten::erfc": 4.0}


class _Unsettled(_Mode):  # type: ignore[no-untyped-call]
    def call(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        name = str(func.name()) if hasattr(func, "_schema") else ""
        if name in _ARBITRARY_ORDER and args[0].dim() and not kwargs:
            dim = _ARBITRARY_ORDER[name](args)
            values, places = func(args[0].flip(dim), *args[1:])
            return values, args[0].shape[dim] - 1 - places
        result = func(*args, **kwargs)
        if name in _UNINITIALISED:
            result.fill_(float("nan") if result.is_floating_point() or result.is_complex() else 1)
        if name in _ABSOLUTE and result.is_floating_point():
            up_and_down = torch.arange(result.numel(), device=result.device).reshape(result.shape) % 2 * 2 - 1
            return result + (up_and_down * (_ABSOLUTE[name] * torch.finfo(result.dtype).eps)).to(result.dtype)
        return result


def noting_draws(draws: list[Draw]) -> contextlib.AbstractContextManager[Any]:
    """Inside, what each op makes that uses the random number generator is appended to `draws`. Like the others
    here, the context can be entered again after it was left."""
    return _Noting(draws)


def giving_draws(draws: list[Draw]) -> contextlib.AbstractContextManager[Any]:
    """Inside, such ops get what was noted, in double precision, instead of drawing; raises OtherDraws where the
    ops are not the same ones."""
    return _Giving(draws)


def unsettled() -> contextlib.AbstractContextManager[Any]:
    """Inside, what torch leaves open shows: memory that nobody has written is NaN (1 in integers), and of equal
    elements sort, topk, kthvalue, median and mode take another one than usual; erf is as inexact as torch's own
    vectorised one."""
    return _Unsettled()  # type: ignore[no-untyped-call]
