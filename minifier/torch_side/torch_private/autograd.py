"""Autograd's graph, version counters, and values inside the transforms of torch.func."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import _efficientzerotensor
from torch._C import _enter_dual_level, _exit_dual_level, _is_fwd_grad_enabled, _set_fwd_grad_enabled
from torch._C._autograd import (
    _saved_tensors_hooks_disable,
    _saved_tensors_hooks_enable,
    _saved_tensors_hooks_get_disabled_error_message,
)
from torch._C._functorch import (
    TransformType,
    _func_decrement_nesting,
    _grad_decrement_nesting,
    _jvp_decrement_nesting,
    _vmap_decrement_nesting,
    get_dynamic_layer_stack_depth,
    get_unwrapped,
    is_functorch_wrapped_tensor,
    maybe_get_bdim,
    peek_interpreter_stack,
    pop_dynamic_layer_stack,
)

from minifier.torch_side.torch_private import declared


def zeros_without_memory(shape: Sequence[int], dtype: torch.dtype, device: str) -> torch.Tensor:
    """Return zeros that take no memory, as forward-mode autograd makes for a derivative that vanishes."""
    return _efficientzerotensor(tuple(shape), dtype=dtype, device=device)


def nodes_below(roots: Iterable[Any], most: int) -> Iterator[Any]:
    """Yield up to `most` nodes of a backward pass from these tensors or gradient edges."""
    starts = [root.grad_fn if isinstance(root, torch.Tensor) else getattr(root, "node", None) for root in roots]
    waiting = [node for node in starts if node is not None]
    seen = set(waiting)
    while waiting and most > 0:
        most -= 1
        node = waiting.pop()
        yield node
        for below, _ in node.next_functions:
            if below is not None and below not in seen:
                seen.add(below)
                waiting.append(below)


@contextlib.contextmanager
def versions_kept(tensors: Sequence[torch.Tensor]) -> Iterator[None]:
    """Keep the tensors' version counters: autograd does not notice writes inside the context."""
    counting = tuple(tensor for tensor in tensors if not tensor.is_inference())
    keep = declared.KEEP_VERSIONS.find() or contextlib.nullcontext
    with keep(counting):
        yield


@contextlib.contextmanager
def outside_transforms(value: Any) -> Iterator[Any]:
    """Unwrap a value inside `torch.vmap` or `torch.func.grad`, in a context without active transforms.

    A batch is replaced by its first element, an empty batch by None. A value outside of transforms stays unchanged.
    """
    if not isinstance(value, torch.Tensor) or peek_interpreter_stack() is None:
        yield value
        return
    if (cleared := declared.CLEAR_TRANSFORMS.find()) is None:
        yield None
        return
    with cleared():
        dims = []
        while is_functorch_wrapped_tensor(value):
            dims.append(maybe_get_bdim(value))
            value = get_unwrapped(value)
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
    depth = get_dynamic_layer_stack_depth()
    is_dual, has_forward_mode = _is_in_dual_level(), _is_fwd_grad_enabled()
    refusal = _saved_tensors_hooks_get_disabled_error_message()
    try:
        yield
    finally:
        while get_dynamic_layer_stack_depth() > depth:
            _end_innermost()
        if _is_in_dual_level() and not is_dual:
            _exit_dual_level(level=0)
        _set_fwd_grad_enabled(has_forward_mode)
        if refusal is None:
            _saved_tensors_hooks_enable()
        else:
            _saved_tensors_hooks_disable(refusal)


def _end_innermost() -> None:
    """End the innermost transform. torch's own function that ends several ends gradients alone in torch 2.8."""
    key = peek_interpreter_stack().key()
    ends: dict[Any, Callable[[], object]] = {
        TransformType.Vmap: _vmap_decrement_nesting,
        TransformType.Grad: _grad_decrement_nesting,
        TransformType.Jvp: _jvp_decrement_nesting,
        TransformType.Functionalize: _func_decrement_nesting,
    }
    ends.get(key, pop_dynamic_layer_stack)()


def _is_in_dual_level() -> bool:
    """Whether a level of forward-mode autograd is open: then no other can be opened."""
    try:
        level = _enter_dual_level()
    except RuntimeError:
        return True
    _exit_dual_level(level=level)
    return False
