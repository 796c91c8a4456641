"""Choose which calls of compiled functions are compared with eager."""

from __future__ import annotations

import time
import weakref
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from minifier.capturing.terms import Comparing
from minifier.torch_private import storage_key


@dataclass
class _Seen:
    """The first call of a graph, and the kinds of its compared calls.

    first: weak references to the first call's tensors, with their version counters.
    kinds: the kinds of call that were compared.
    """

    first: list[tuple[weakref.ref[torch.Tensor], int] | None]
    kinds: set[Hashable] = field(default_factory=set)


class ComparedCalls:
    """Chooses the first call of each graph, its last call, and calls whose inputs are of another kind than before.

    Kinds differ in grad and inference mode, sizes, strides, dtypes, requires_grad, is_leaf, numbers, shared memory.
    They also tell which tensors are the first call's, and which of these were written since. Comparisons after the
    graphs' first calls stop once they have taken `comparing.seconds`.
    """

    def __init__(self, comparing: Comparing) -> None:
        self._comparing = comparing
        self._graphs: dict[int, _Seen] = {}
        self._seconds = 0.0
        self._begun: float | None = None

    def chooses(self, place: int, number: int, args: Sequence[Any]) -> bool:
        """Whether the call `number`, from 1, of Dynamo's `place`th graph is compared."""
        begun, is_first = time.perf_counter(), place not in self._graphs
        chosen = place not in self._comparing.left_out and self._is_chosen(place, number, args)
        self._begun = begun if chosen and not is_first else None
        return chosen

    def _is_chosen(self, place: int, number: int, args: Sequence[Any]) -> bool:
        seen = self._graphs.get(place)
        if seen is None:
            seen = self._graphs[place] = _Seen([_reference(value) for value in args])
            seen.kinds.add(_kind(args, seen))
            return True
        if self._seconds > self._comparing.seconds:
            return False
        kind = _kind(args, seen)
        if kind in seen.kinds and number != self._comparing.last_calls.get(place):
            return False
        seen.kinds.add(kind)
        return True

    def compared(self, script_seconds: float) -> None:
        """Count the time since `chooses` chose this call, without the `script_seconds` of the script's own call."""
        if self._begun is not None:
            self._seconds += time.perf_counter() - self._begun - script_seconds


def _version(tensor: torch.Tensor) -> int:
    return 0 if tensor.is_inference() else tensor._version


def _reference(value: Any) -> tuple[weakref.ref[torch.Tensor], int] | None:
    return (weakref.ref(value), _version(value)) if isinstance(value, torch.Tensor) else None


def _kind(args: Sequence[Any], seen: _Seen) -> Hashable:
    storages: dict[object, tuple[int, int]] = {}  # number, and the offset of the first tensor
    kind: list[Hashable] = [torch.is_grad_enabled(), torch.is_inference_mode_enabled()]
    for i, (value, first) in enumerate(zip(args, seen.first, strict=False)):
        if not isinstance(value, torch.Tensor):
            kind.append(value if isinstance(value, (bool, int, float, str)) else str(value))
            continue
        is_first = first is not None and first[0]() is value
        strided = value.layout is torch.strided
        place: Hashable = None
        if strided and value.numel():
            number, offset = storages.setdefault(storage_key(value), (i, int(value.storage_offset())))
            place = number, int(value.storage_offset()) - offset
        kind.append(
            (
                tuple(value.shape),
                tuple(value.stride()) if strided else (),
                value.dtype,
                value.requires_grad,
                value.is_leaf,
                place,
                is_first,
                is_first and first is not None and _version(value) != first[1],
            )
        )
    return tuple(kind)
