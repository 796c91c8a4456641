"""Which of the script's graphs its backward passes come through: only these have gradients that somebody wants."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import torch

from minifier.torch_private import NodeId, node_of, nodes_below

_MOST_RESULTS = 10_000  # that are waiting for a backward pass
_ONE_PASS, _ALL_PASSES = 200_000, 5_000_000  # nodes that are looked at; about a microsecond each


class Training:
    """Told of each call and each backward pass; `note(number)` is called once for each graph that is trained. Looks
    at autograd's graph only: a hook in it could be seen."""

    def __init__(self, note: Callable[[int], None]) -> None:
        self._note = note
        self._trained: set[int] = set()
        self._made: dict[NodeId, int] = {}
        self._left = _ALL_PASSES

    def before(self, number: int, args: Sequence[Any]) -> frozenset[NodeId | None] | None:
        """What `after` needs to know from before the call of the graph with this number; None: nothing is noted."""
        if number in self._trained or not torch.is_grad_enabled():
            return None
        return frozenset(map(node_of, args))

    def after(self, number: int, args: Sequence[Any], result: Any, before: frozenset[NodeId | None] | None) -> None:
        """Notes which nodes of autograd's graph the call made."""
        if before is None:
            return
        results = result if isinstance(result, (tuple, list)) else (result,)
        for node in map(node_of, (*results, *args)):  # an input may have been changed in place
            if node is not None and node not in before:
                self._made[node] = number
        while len(self._made) > _MOST_RESULTS:
            del self._made[next(iter(self._made))]

    def passes(self, roots: Sequence[Any]) -> None:
        """Notes the graphs that a backward pass from these roots comes through."""
        if not self._made or self._left <= 0:
            return
        with contextlib.suppress(Exception):  # odd roots are autograd's to complain about
            for node in nodes_below(roots, min(_ONE_PASS, self._left)):
                self._left -= 1
                number = self._made.get(node)
                if number is not None and number not in self._trained:
                    self._trained.add(number)
                    self._note(number)
        if self._trained:
            self._made = {node: number for node, number in self._made.items() if number not in self._trained}
