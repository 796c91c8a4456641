"""Record the random numbers of an eager run, and replay them in another run."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from minifier.interfaces.declared import EVERYTHING, stands_on

stands_on("torch._ops:OpOverload._schema", loses=EVERYTHING)
stands_on(
    "torch.utils._python_dispatch:TorchDispatchMode.supports_higher_order_operators",  # since torch 2.9
    loses="known values in the bodies of higher-order ops: a body keeps more ops and inputs than it needs",
)

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
    """Return the positions of the arguments that the op writes."""
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


class _Recording(Mode):  # type: ignore[no-untyped-call]
    def __init__(self, draws: list[Draw]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.draws = draws

    def call(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        result = func(*args, **kwargs)
        if is_draw(func):
            written = _written(func, args)
            results = result if isinstance(result, (tuple, list)) else (result,)
            copies = tuple(
                None if any(r is args[i] for i in written) else r.clone() if isinstance(r, torch.Tensor) else r
                for r in results
            )
            self.draws.append(Draw(func.name(), copies, tuple((i, args[i].clone()) for i in written)))
        return result


def _widened(value: Any) -> Any:
    return value.to(_WIDER.get(value.dtype, value.dtype)) if isinstance(value, torch.Tensor) else value


class _Replaying(Mode):  # type: ignore[no-untyped-call]
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


def noting_draws(draws: list[Draw]) -> contextlib.AbstractContextManager[Any]:
    """Append the results of ops that use the random number generator to `draws`. The context can be entered again."""
    return _Recording(draws)


def giving_draws(draws: list[Draw]) -> contextlib.AbstractContextManager[Any]:
    """Replace the results of random ops by recorded ones in double precision. The context can be entered again.

    Raises OtherDraws if an op differs from the recorded op.
    """
    return _Replaying(draws)
