"""What lies behind fake tensors and symbolic numbers."""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor


def as_hint(value: Any) -> Any:
    """The concrete number behind a symbolic one; other values as they are, None for one without a hint."""
    if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        node = value.node
        return node.hint if node.has_hint() else None
    return value


def expression_of(value: Any) -> str | None:
    """The expression behind a symbolic number; None for one that turned out to be fixed, and for other values."""
    if not isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return None
    expression = value.node.expr
    return str(expression) if expression.free_symbols else None


def storage_key(tensor: torch.Tensor) -> object | None:
    """Identity of the tensor's storage, fake or real; None where it has no storage."""
    try:
        return int(tensor.untyped_storage()._cdata)
    except (NotImplementedError, RuntimeError):
        return None


def is_fake(values: Any) -> bool:
    """Whether any of the values is a fake tensor."""
    return any(isinstance(value, FakeTensor) for value in values)
