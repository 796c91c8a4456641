"""Operators of `torch.ops`, and modules of built-in functions that have no usable `__module__`."""

from __future__ import annotations

from typing import Any

from torch._C import _autograd, _functorch
from torch._ops import HigherOrderOperator, OpOverload, OpOverloadPacket

from minifier.interfaces.names import HIGHER_ORDER

BUILT_IN_MODULES = tuple((module.__name__, module) for module in (_functorch, _autograd))


def operator_path(function: Any) -> str | None:
    """Return the import path of an operator, `torch.ops.aten.tanh.default`; None for another function."""
    if isinstance(function, (OpOverload, OpOverloadPacket)):
        return f"torch.ops.{function}"
    return f"{HIGHER_ORDER}{function}" if isinstance(function, HigherOrderOperator) else None
