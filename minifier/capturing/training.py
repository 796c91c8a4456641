"""Find the graphs that the script's backward passes reach: only their gradients are worth comparing."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import torch

from minifier.torch_private import NodeId, node_of, nodes_below

_MAX_WAITING_NODES = 10_000  # results that await a backward pass
_MAX_NODES_PER_PASS, _MAX_NODES = 200_000, 5_000_000  # visited autograd nodes, about a microsecond each


class Training:
    """Maps autograd's nodes to the graphs that made them; calls `note(number)` once for each trained graph.

    Autograd's graph is only read: the script could see a hook there.
    """

    def __init__(self, note: Callable[[int], None]) -> None:
        self._note = note
        self._trained: set[int] = set()
        self._graph_of: dict[NodeId, int] = {}
        self._nodes_left = _MAX_NODES

    def before(self, number: int, args: Sequence[Any]) -> frozenset[NodeId | None] | None:
        """Return the inputs' autograd nodes for `after`, or None if the call needs no look."""
        if number in self._trained or not torch.is_grad_enabled():
            return None
        return frozenset(map(node_of, args))

    def after(self, number: int, args: Sequence[Any], result: Any, before: frozenset[NodeId | None] | None) -> None:
        """Record the autograd nodes that the call made."""
        if before is None:
            return
        results = result if isinstance(result, (tuple, list)) else (result,)
        for node in map(node_of, (*results, *args)):  # the call may have changed an input in place
            if node is not None and node not in before:
                self._graph_of[node] = number
        while len(self._graph_of) > _MAX_WAITING_NODES:
            del self._graph_of[next(iter(self._graph_of))]

    def passes(self, roots: Sequence[Any]) -> None:
        """Note the graphs that a backward pass from these roots reaches."""
        if not self._graph_of or self._nodes_left <= 0:
            return
        with contextlib.suppress(Exception):  # autograd itself rejects invalid roots
            for node in nodes_below(roots, min(_MAX_NODES_PER_PASS, self._nodes_left)):
                self._nodes_left -= 1
                number = self._graph_of.get(node)
                if number is not None and number not in self._trained:
                    self._trained.add(number)
                    self._note(number)
        if self._trained:
            self._graph_of = {node: number for node, number in self._graph_of.items() if number not in self._trained}
