"""Random numbers of one eager run noted, and given again to another."""

from __future__ import annotations

import contextlib
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


def is_draw(func: Any) -> bool:
    """Whether an ATen op uses the random number generator."""
    return torch.Tag.nondeterministic_seeded in getattr(func, "tags", ())


def _written(func: Any, args: tuple[Any, ...]) -> list[int]:
    """Positions of the tensors that the op writes."""
    infos = [argument.alias_info for argument in func._schema.arguments[: len(args)]]
    return [i for i, info in enumerate(infos) if info is not None and info.is_write]


class Mode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A dispatch mode whose `call` stands around every op, higher-order ones included."""

    supports_higher_order_operators = True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self.call(func, args, kwargs or {})

    def call(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Gives what the op gives."""
        raise NotImplementedError


class _Noting(Mode):  # type: ignore[no-untyped-call]
    def __init__(self, draws: list[Draw]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.draws = draws

    def call(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        result = func(*args, **kwargs)
        if is_draw(func):
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


class _Giving(Mode):  # type: ignore[no-untyped-call]
    def __init__(self, draws: list[Draw]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._left = iter(draws)

    def call(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not is_draw(func):
            return func(*args, **kwargs)
        draw = next(self._left, None)
        if draw is None or draw.op != func.name() or any(args[i].shape != value.shape for i, value in draw.written):
            raise OtherDraws(func.name())
        for i, value in draw.written:
            args[i].copy_(value)
        written = iter(i for i, _ in draw.written)
        results = tuple(args[next(written)] if r is None else _widened(r) for r in draw.results)
        return results if len(func._schema.returns) > 1 else results[0]


def noting_draws(draws: list[Draw]) -> contextlib.AbstractContextManager[Any]:
    """Inside, what each op makes that uses the random number generator is appended to `draws`. Like the others
    here, the context can be entered again after it was left."""
    return _Noting(draws)


def giving_draws(draws: list[Draw]) -> contextlib.AbstractContextManager[Any]:
    """Inside, such ops get what was noted, in double precision, instead of drawing; raises OtherDraws where the
    ops are not the same ones."""
    return _Giving(draws)
