"""Values inside the transforms of torch.func, which wrap them while the transformed function runs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch._C import _functorch as functorch


@contextlib.contextmanager
def outside_transforms(value: Any) -> Iterator[Any]:
    """Unwrap a value inside `torch.vmap` or `torch.func.grad`, in a context without active transforms.

    A batch is replaced by its first element, an empty batch by None. A value outside of transforms stays unchanged.
    """
    if not isinstance(value, torch.Tensor) or functorch.peek_interpreter_stack() is None:
        yield value
        return
    from torch._functorch import pyfunctorch  # slow to import, and only needed here

    with pyfunctorch.temporarily_clear_interpreter_stack():
        dims = []
        while functorch.is_functorch_wrapped_tensor(value):
            dims.append(functorch.maybe_get_bdim(value))
            value = functorch.get_unwrapped(value)
        for dim in reversed(dims):  # an inner batch's dimension is counted without those of the outer batches
            if dim >= 0 and value is not None:
                value = value.select(dim, 0) if value.shape[dim] else None
        yield value


@contextlib.contextmanager
def transforms_ended() -> Iterator[None]:
    """End the transforms that are still open at the end of the context, because a graph raised.

    Otherwise all later code would run inside them, with their level of forward-mode autograd and without hooks for
    saved tensors.
    """
    depth = functorch.get_dynamic_layer_stack_depth()
    is_dual, has_forward_mode = _is_in_dual_level(), torch._C._is_fwd_grad_enabled()
    refusal = torch._C._autograd._saved_tensors_hooks_get_disabled_error_message()
    try:
        yield
    finally:
        if functorch.get_dynamic_layer_stack_depth() > depth:
            functorch.pop_dynamic_layer_stack_and_undo_to_depth(depth)
        if _is_in_dual_level() and not is_dual:
            torch._C._exit_dual_level(level=0)
        torch._C._set_fwd_grad_enabled(has_forward_mode)
        if refusal is None:
            torch._C._autograd._saved_tensors_hooks_enable()
        else:
            torch._C._autograd._saved_tensors_hooks_disable(refusal)


def _is_in_dual_level() -> bool:
    """Whether a level of forward-mode autograd is open: then no other can be opened."""
    try:
        level = torch._C._enter_dual_level()
    except RuntimeError:
        return True
    torch._C._exit_dual_level(level=level)
    return False
