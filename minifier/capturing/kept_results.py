"""Watch whether a later call of compiled code writes over a result that the script still has."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from minifier.compare.overwritten import overwritten
from minifier.compare.results import leaves
from minifier.failure import Difference

_MAX_COPIED_BYTES = 2**26  # of the outputs of a call


@dataclass(frozen=True, slots=True)
class _Kept:
    """An output of a call, and its values at that time."""

    output: weakref.ref[torch.Tensor]
    values: torch.Tensor

    @property
    def has_changed(self) -> bool:
        """Whether the script still has the output, with other values."""
        output = self.output()
        return output is not None and not torch.equal(output.detach(), self.values)


class KeptResults:
    """The outputs of a graph's last compared call, as weak references.

    The memory of an output that the script has dropped may be used again, and the script itself may change an output in
    place. So one counts that a later call's output begins at, once the script goes on and still has it, changed.
    """

    def __init__(self) -> None:
        self._kept: list[_Kept] = []
        self._suspects: list[_Kept] = []
        self._differences: tuple[Difference, ...] = ()
        self.call = 0  # that wrote over them

    def keep(self, result: Any) -> None:
        """Watch the outputs of a call that was found to be right, in the place of an earlier call's."""
        outputs = [value for value in leaves(result)[0] if isinstance(value, torch.Tensor) and not value.is_sparse]
        few = sum(value.nbytes for value in outputs) <= _MAX_COPIED_BYTES
        self._kept = [_Kept(weakref.ref(value), value.detach().clone()) for value in outputs] if few else []

    def look(self, args: Sequence[Any], result: Any, call: int) -> None:
        """Note which of the outputs the result of a later call is written over, unless some were noted before."""
        if not self._kept or self._suspects:
            return
        suspects = [kept for kept in self._kept if overwritten([kept.output()], args, result)]
        if suspects:
            self._suspects, self.call = suspects, call
            self._differences = overwritten([kept.output() for kept in suspects], args, result)

    def lost(self) -> tuple[Difference, ...]:
        """Return how a later call wrote over an output that the script still has; nothing is told twice."""
        if not self._suspects:
            return ()
        differences = self._differences if any(kept.has_changed for kept in self._suspects) else ()
        self._suspects, self._kept = [], []
        return differences
