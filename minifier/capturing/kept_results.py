"""Results of compiled code: the worst of several that differ, and whether a later call writes over one."""

from __future__ import annotations

import math
import shutil
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from minifier.case.store import CASE, GRAPH
from minifier.case.stored import TENSORS
from minifier.compare.overwritten import overwritten
from minifier.compare.results import leaves
from minifier.failure import Difference, Failure
from minifier.failure.from_comparison import rank_of

# Rounding by design, to fewer bits say, may be wrong in each call; stale values are wrong by far more.
_SMALL_ERROR, _FAR_LARGER = 1e-2, 100.0
_LATER = "later"

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


class WorstResult:
    """The worst wrong result of a graph. Its Case is in `home`; Cases of later calls are written to `folder`."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.failure: Failure | None = None

    @property
    def folder(self) -> Path:
        """The folder for the Case of the next call."""
        return self.home if self.failure is None else self.home / _LATER

    @property
    def may_be_worse(self) -> bool:
        """Whether a later result can be worse than a wrong result, or wrong by much more. False without one."""
        return self.failure is not None and (rank_of(self.failure) > 0 or _error(self.failure) < _SMALL_ERROR)

    def replaces(self, failure: Failure) -> bool:
        """Note a wrong result whose Case is in `folder`, if it is worse; return whether there was another before.

        The Case then takes the other's place."""
        before, self.failure = self.failure, failure
        if before is None:
            return False
        for name in (GRAPH, CASE, TENSORS):
            (self.home / name).unlink(missing_ok=True)
            if (self.folder / name).exists():
                (self.folder / name).replace(self.home / name)
        return True

    def is_worse(self, failure: Failure) -> bool:
        """Whether a failure is worse than the worst so far: of a worse aspect, or by a far larger error."""
        if self.failure is None or rank_of(failure) != rank_of(self.failure):
            return self.failure is None or rank_of(failure) < rank_of(self.failure)
        return _error(failure) > _FAR_LARGER * _error(self.failure)

    def clear(self) -> None:
        """Remove the Case of a later call that was not worse."""
        shutil.rmtree(self.home / _LATER, ignore_errors=True)


def _error(failure: Failure) -> float:
    """Return how large the error is; infinite if no size is known."""
    main = failure.main_difference
    return math.inf if main is None or not main.error else main.error
