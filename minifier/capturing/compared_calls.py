"""Choose which calls of compiled functions are compared with eager, with gradients or without."""

from __future__ import annotations

import contextlib
import time
import weakref
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from minifier.capturing.captured import EventLog
from minifier.capturing.graph_record import Record
from minifier.capturing.script_limits import Comparing
from minifier.torch_side.torch_private import autograd, graphs

_MIN_GRAPHS = 8  # whose first call is compared, however long that takes


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
    They also tell which tensors are the first call's, and which of these were written since. Once all comparisons have
    taken `comparing.seconds`, only first calls of the first few graphs are chosen; that is logged.
    """

    def __init__(self, comparing: Comparing, log: EventLog) -> None:
        self._comparing, self._log = comparing, log
        self._graphs: dict[int, _Seen] = {}
        self._seconds = 0.0
        self._begun = 0.0
        self._was_told = False

    def chooses(self, record: Record, args: Sequence[Any]) -> bool:
        """Whether the record's next call is compared."""
        begun = time.perf_counter()
        chosen = record.place not in self._comparing.left_out and self._is_chosen(record, args)
        if chosen:
            self._begun = begun
        return chosen

    def _is_chosen(self, record: Record, args: Sequence[Any]) -> bool:
        seen = self._graphs.get(record.place)
        is_spent = self._seconds > self._comparing.seconds
        if seen is None:
            seen = self._graphs[record.place] = _Seen([_reference(value) for value in args])
            seen.kinds.add(_kind(args, seen))
            if is_spent and len(self._graphs) > _MIN_GRAPHS:
                reason = f"comparing had taken {self._seconds:.0f} s by then"
                self._log.write("not compared", number=record.number, reason=reason)
                return False
            return True
        if is_spent:
            if not self._was_told:
                self._log.write("bounded", seconds=self._seconds)
            self._was_told = True
            return False
        kind = _kind(args, seen)
        if kind in seen.kinds and record.runs + 1 != self._comparing.last_calls.get(record.place):
            return False
        seen.kinds.add(kind)
        return True

    def compared(self, script_seconds: float) -> None:
        """Count the time since `chooses` chose this call, without the `script_seconds` of the script's own call."""
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
            number, offset = storages.setdefault(graphs.storage_key(value), (i, int(value.storage_offset())))
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


_MADE_BY = "minify: made by graph"  # in the metadata of an autograd node
_MAX_NODES_PER_PASS, _MAX_NODES = 200_000, 5_000_000  # visited autograd nodes, about a microsecond each


class Training:
    """Notes on autograd's nodes which graph made them; calls `note(number)` once for each trained graph.

    The nodes get no hook: the script could see it, and autograd would compile it with a backward pass.
    """

    def __init__(self, note: Callable[[int], None]) -> None:
        self._note = note
        self._trained: set[int] = set()
        self._untrained: set[int] = set()  # with nodes that await a backward pass
        self._nodes_left = _MAX_NODES

    def before(self, number: int, args: Sequence[Any]) -> list[Any] | None:
        """Return the inputs' autograd nodes for `after`, or None if the call needs no look."""
        if number in self._trained or not torch.is_grad_enabled():
            return None
        return _nodes(args)

    def after(self, number: int, args: Sequence[Any], result: Any, before: list[Any] | None) -> None:
        """Note the graph's number on the autograd nodes that the call made."""
        if before is None:
            return
        results = result if isinstance(result, (tuple, list)) else (result,)
        known = set(map(id, before))
        for node in _nodes((*results, *args)):  # the call may have changed an input in place
            if id(node) not in known:
                node.metadata[_MADE_BY] = number
                self._untrained.add(number)

    def passes(self, roots: Sequence[Any]) -> None:
        """Note the graphs that a backward pass from these roots reaches."""
        if not self._untrained or self._nodes_left <= 0:
            return
        with contextlib.suppress(Exception):  # autograd itself rejects invalid roots
            for node in autograd.nodes_below(roots, min(_MAX_NODES_PER_PASS, self._nodes_left)):
                self._nodes_left -= 1
                number = node.metadata.get(_MADE_BY)
                if number in self._untrained:
                    self._untrained.discard(number)
                    self._trained.add(number)
                    self._note(number)


def _nodes(values: Sequence[Any]) -> list[Any]:
    tensors = (value for value in values if isinstance(value, torch.Tensor))
    return [node for tensor in tensors if (node := tensor.grad_fn) is not None]
