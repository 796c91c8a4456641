"""Autograd's graph: the nodes of a backward pass, and version counters."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import _efficientzerotensor

from minifier.interfaces.declared import EVERYTHING, TRAINING, VERSIONS, stands_on

stands_on("torch:Tensor._version", loses=EVERYTHING)
_SEQUENCE_NUMBER = stands_on("torch._C:_FunctionBase._sequence_nr", loses=TRAINING)
_KEEP_VERSIONS = stands_on(
    "torch.autograd.grad_mode:_unsafe_preserve_version_counter", loses=VERSIONS, parameters=("tensors",)
)

# Identifies a node while its graph lives: its sequence number in its thread, and its name.
NodeId = tuple[int, str]


def _identity(node: Any) -> NodeId | None:
    return _SEQUENCE_NUMBER.read(lambda: (node._sequence_nr(), node.name()))


def zeros_without_memory(shape: Sequence[int], dtype: torch.dtype, device: str) -> torch.Tensor:
    """Return zeros that take no memory, as forward-mode autograd makes for a derivative that vanishes."""
    return _efficientzerotensor(tuple(shape), dtype=dtype, device=device)


def node_of(value: Any) -> NodeId | None:
    """Return the node that made a tensor; None for leaves, tensors without a gradient, and other values."""
    node = value.grad_fn if isinstance(value, torch.Tensor) else None
    return None if node is None else _identity(node)


def nodes_below(roots: Iterable[Any], most: int) -> Iterator[NodeId]:
    """Yield up to `most` nodes of a backward pass from these tensors or gradient edges."""
    starts = [root.grad_fn if isinstance(root, torch.Tensor) else getattr(root, "node", None) for root in roots]
    waiting = [node for node in starts if node is not None]
    seen = set(waiting)
    while waiting and most > 0:
        most -= 1
        node = waiting.pop()
        if (identity := _identity(node)) is not None:
            yield identity
        for below, _ in node.next_functions:
            if below is not None and below not in seen:
                seen.add(below)
                waiting.append(below)


@contextlib.contextmanager
def versions_kept(tensors: Sequence[torch.Tensor]) -> Iterator[None]:
    """Keep the tensors' version counters: autograd does not notice writes inside the context."""
    counting = tuple(tensor for tensor in tensors if not tensor.is_inference())
    keep = _KEEP_VERSIONS.find() or contextlib.nullcontext
    with keep(counting):
        yield
