"""The backend calls of the script's process: their contexts, and in shared memory which of them run now."""

from __future__ import annotations

import mmap
import struct
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from minifier.data.case import BackendReference, Level
from minifier.data.failure import Stage
from minifier.torch_side.compare.results import RandomStates
from minifier.torch_side.torch_private import without_donated_buffers

if TYPE_CHECKING:
    from minifier.capturing.graph_record import Record
    from minifier.capturing.observer import Observer


class BackendCall:
    """Context of a backend's compilation or a compiled function's call: marks the call as running, collects its logs.

    `call` counts a compiled function's calls from 1, and is 0 while compiling. `matched` is the first logged line that
    --match-log matches, or the line about a fallback that --fallbacks asks for.
    """

    __slots__ = ("call", "matched", "observer", "outer", "record", "stage", "token")

    def __init__(self, observer: Observer, record: Record, stage: Stage, call: int = 0) -> None:
        self.observer, self.record, self.stage, self.call = observer, record, stage, call
        self.matched = ""
        self.outer: BackendCall | None = None
        self.token: Token | None = None

    def __enter__(self) -> BackendCall:
        observer = self.observer
        mine = observer.mine
        self.outer, mine.call = mine.call, self
        observer.open.append(self)
        self.token = observer.status.enter(self.stage, self.record.number, self.call)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        observer = self.observer
        observer.status.leave(self.token)
        observer.mine.call = self.outer
        if kind is None and self.outer is None:
            observer.mine.logged_error = None
        observer.open.remove(self)


class ComparedCall:
    """Reusable context of the compiled function's call in a comparison: gets the time limit of a script's call.

    A backward pass inside, with `retain_graph`, is compiled without donated buffers: the script may retain its own
    graph later.
    """

    def __init__(self, record: Record) -> None:
        self._record = record
        self._token: Token | None = None

    def __enter__(self) -> None:
        self._keeping_buffers = without_donated_buffers()
        self._keeping_buffers.__enter__()
        self._token = self._record.observer.status.enter(Stage.COMPARE, self._record.number, 1)

    def __exit__(self, *_: object) -> None:
        self._record.observer.status.leave(self._token, counts=False)
        self._keeping_buffers.__exit__(None, None, None)


@dataclass(frozen=True, slots=True)
class ScriptCall:
    """A finished call of a compiled function by the script.

    args: the inputs, as the call left them. random: the random number generators' states before the call.
    """

    args: Sequence[Any]
    result: Any
    random: RandomStates


@dataclass(frozen=True, slots=True)
class DynamoGraph:
    """Dynamo's `place`th graph, 0 if tracing failed.

    `refer` returns the reference to the graph's backend, and the source of what the script's module does not define.
    """

    refer: Callable[[], tuple[BackendReference, str]]
    place: int


@dataclass(frozen=True, slots=True)
class AotGraph:
    """AOTAutograd's backward or forward graph (`level`) of the Dynamo graph in `forward`."""

    forward: Record
    level: Level = Level.AOT_BACKWARD


_STAGES = tuple(Stage)
_NUMBERS = {stage: number for number, stage in enumerate(_STAGES, 1)}
_HEAD = struct.Struct("=Qd")  # how far the program has come; seconds of the slowest call that returned
_RUNS, _EXITS, _HAS_ENDED = range(3)  # its own code; threads and exit handlers, after that; it ended by itself
_CALL = struct.Struct("=QQQQd")  # stage from 1 (0: nothing runs), graph, call, thread, when it began
_NO_CALL = bytes(_CALL.size)
_MAX_THREADS = 100  # in backend calls at the same time; calls of further threads are not recorded
_VERSION = struct.Struct("=Q")  # of a slot's content: odd while it is written
_SLOT_BYTES = _VERSION.size + _CALL.size
_FIRST_SLOT_OFFSET = 64
_SLOT_OFFSETS = range(_FIRST_SLOT_OFFSET, _FIRST_SLOT_OFFSET + _MAX_THREADS * _SLOT_BYTES, _SLOT_BYTES)


@dataclass(frozen=True, slots=True)
class Running:
    """A backend call that has not returned.

    number: of the graph.
    call: counts the compiled function's calls; 0 while compiling. At stage COMPARE: 1 for the call of the compiled
        function, 0 for the rest of the comparison.
    thread: the result of `threading.get_ident`.
    begun: when the call began, by the clock of its `RunningCalls`, in seconds.
    """

    stage: Stage
    number: int
    call: int
    thread: int
    begun: float


# From `enter` to `leave`: the slot's offset, its former content (empty if it was free), and when the call began.
Token = tuple[int, bytes, float]


class _OwnSlot(threading.local):
    offset = 0  # 0: this thread has no slot


class RunningCalls:
    """Shared memory, anonymous or in the file `path`. Created before the fork; the child writes, the parent reads.

    Each thread in a backend call has its own slot, with its innermost call. Writing takes about a microsecond.
    """

    def __init__(self, path: Path | None = None, now: Callable[[], float] = time.monotonic) -> None:
        size = _SLOT_OFFSETS.stop
        if path is None:
            self._memory = mmap.mmap(-1, size)  # no file that the script could close
        else:  # for a reader after the process has ended
            with path.open("a+b") as file:
                if path.stat().st_size < size:
                    file.truncate(size)
                self._memory = mmap.mmap(file.fileno(), size)
        self._free = list(reversed(_SLOT_OFFSETS))
        self._own_slot = _OwnSlot()
        self.now = now
        self._slowest = 0.0
        self._state = _RUNS

    def enter(self, stage: Stage, number: int, call: int) -> Token | None:
        """Record that a backend call begins in this thread; must not be called in the script's own forks."""
        slot = self._own_slot
        offset = slot.offset
        if offset:
            outer = self._memory[offset + _VERSION.size : offset + _SLOT_BYTES]
        else:
            try:
                offset = self._free.pop()
            except IndexError:  # more threads than slots
                return None
            slot.offset, outer = offset, b""
        now = self.now()
        self._write(offset, _CALL.pack(_NUMBERS[stage], number, call, threading.get_ident(), now))
        return offset, outer, now

    def leave(self, token: Token | None, *, counts: bool = True) -> None:
        """Record that the call returned or raised; the outer call is running again.

        Without `counts` the call is left out of `slowest`.
        """
        if token is None:
            return
        offset, outer, begun = token
        self._write(offset, outer or _NO_CALL)
        if not outer:
            self._own_slot.offset = 0
            self._free.append(offset)
        lasted = self.now() - begun
        if counts and lasted > self._slowest:
            self._slowest = lasted
            self._write_head()

    def _write(self, offset: int, content: bytes) -> None:
        """Write a slot. Each slice is copied at once, as `pack_into` is not."""
        memory, start = self._memory, offset + _VERSION.size
        (version,) = _VERSION.unpack_from(memory, offset)
        memory[offset:start] = _VERSION.pack(version + 1)
        memory[start : offset + _SLOT_BYTES] = content
        memory[offset:start] = _VERSION.pack(version + 2)

    def _read(self, offset: int) -> bytes:
        """Return the content of a slot; no call if it is being written, or was written meanwhile."""
        memory, start = self._memory, offset + _VERSION.size
        version = memory[offset:start]
        content = memory[start : offset + _SLOT_BYTES]
        is_whole = memory[offset:start] == version and _VERSION.unpack(version)[0] % 2 == 0
        return content if is_whole else _NO_CALL

    def exits(self) -> None:
        """Record that the program's own code has ended: its threads and exit handlers still run."""
        self._enter_state(_EXITS)

    def ended(self) -> None:
        """Record that the program ended by itself: the unfinished calls of its other threads did not fail."""
        self._enter_state(_HAS_ENDED)

    def _enter_state(self, state: int) -> None:
        self._state = state
        self._write_head()

    def _write_head(self) -> None:
        self._memory[: _HEAD.size] = _HEAD.pack(self._state, self._slowest)

    @property
    def is_exiting(self) -> bool:
        """Whether the program's own code has ended, but not its threads and exit handlers."""
        return bool(_HEAD.unpack_from(self._memory, 0)[0] == _EXITS)

    @property
    def has_ended(self) -> bool:
        """Whether the program ended by itself."""
        return bool(_HEAD.unpack_from(self._memory, 0)[0] == _HAS_ENDED)

    @property
    def slowest(self) -> float:
        """Seconds of the slowest call that returned."""
        return float(_HEAD.unpack_from(self._memory, 0)[1])

    def running(self) -> list[Running]:
        """Return the calls that have not returned, the last begun first."""
        calls = []
        for offset in _SLOT_OFFSETS:
            stage, number, call, thread, begun = _CALL.unpack(self._read(offset))
            if 0 < stage <= len(_STAGES):
                calls.append(Running(_STAGES[stage - 1], number, call, thread, begun))
        return sorted(calls, key=lambda running: -running.begun)
