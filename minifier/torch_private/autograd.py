"""Autograd's graph: which nodes a backward pass comes through, and version counters that stay."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch.autograd import grad_mode

# A node as long as its graph lives: its number in the thread that made it, and its name.
NodeId = tuple[int, str]


def _identity(node: Any) -> NodeId:
    return node._sequence_nr(), node.name()


def node_of(value: Any) -> NodeId | None:
    """The node that made a tensor; None for leaves, for tensors without a gradient, and for other values."""
    node = value.grad_fn if isinstance(value, torch.Tensor) else None
    return None if node is None else _identity(node)


def nodes_below(roots: Iterable[Any], most: int) -> Iterator[NodeId]:
    """The nodes that a backward pass from these tensors (or gradient edges) comes through, `most` of them."""
    found = [root.grad_fn if isinstance(root, torch.Tensor) else getattr(root, "node", None) for root in roots]
    waiting = [node for node in found if node is not None]
    seen = set(waiting)
    while waiting and most > 0:
        most -= 1
        node = waiting.pop()
        yield _identity(node)
        for below, _ in node.next_functions:
            if below is not None and below not in seen:
                seen.add(below)
                waiting.append(below)


@contextlib.contextmanager
def versions_kept(tensors: Sequence[torch.Tensor]) -> Iterator[None]:
    """What is written to these tensors inside is not counted: autograd does not see that they were changed."""
    counting = tuple(tensor for tensor in tensors if not tensor.is_inference())
    with grad_mode._unsafe_preserve_version_counter(counting):
        yield
