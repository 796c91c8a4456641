"""Values inside the transforms of torch.func, which are wrapped for as long as these are being made."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch._C import _functorch as functorch


@contextlib.contextmanager
def outside_transforms(value: Any) -> Iterator[Any]:
    """The value as a function inside `torch.vmap` or `torch.func.grad` sees it (of a batch the first element), in a
    context in which no transform is active. Anything but a wrapped tensor is given as it is; None for an empty batch.
    """
    if not isinstance(value, torch.Tensor) or functorch.peek_interpreter_stack() is None:
        yield value
        return
    from torch._functorch import pyfunctorch  # takes its time, and is needed for such graphs alone

    with pyfunctorch.temporarily_clear_interpreter_stack():
        dims = []
        while functorch.is_functorch_wrapped_tensor(value):
            dims.append(functorch.maybe_get_bdim(value))
            value = functorch.get_unwrapped(value)
        for dim in reversed(dims):  # of nested batches the innermost is counted without the others' dimensions
            if dim >= 0 and value is not None:
                value = value.select(dim, 0) if value.shape[dim] else None
        yield value


@contextlib.contextmanager
def transforms_ended() -> Iterator[None]:
    """Ends the transforms that are begun in it and left open, as by a graph that raises: whatever came after would be
    part of them."""
    depth = functorch.get_dynamic_layer_stack_depth()
    try:
        yield
    finally:
        if functorch.get_dynamic_layer_stack_depth() > depth:
            functorch.pop_dynamic_layer_stack_and_undo_to_depth(depth)
