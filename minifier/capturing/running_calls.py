"""The running backend calls of the script's process, in memory shared with the waiting process."""

from __future__ import annotations

import mmap
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from minifier.data.failure import Stage

_STAGES = tuple(Stage)
_NUMBERS = {stage: number for number, stage in enumerate(_STAGES, 1)}
_HEAD = struct.Struct("=Qd")  # how far the program has come; seconds of the slowest call that returned
_RUNS, _EXITS, _HAS_ENDED = range(3)  # its own code; threads and exit handlers, after that; it ended by itself
_LASTS = _HEAD.size  # the place of a byte that the parent writes: a call has lasted so long that it may hang
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
    """Shared memory, anonymous or in the file `path`. Created before the fork; the child writes, the parent reads,
    but for `lasts_long`.

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

    @property
    def lasts_long(self) -> bool:
        """Whether a call has lasted so long that Ctrl-C takes it for a hang: the parent says so."""
        return bool(self._memory[_LASTS])

    @lasts_long.setter
    def lasts_long(self, lasts: bool) -> None:
        self._memory[_LASTS] = int(lasts)

    def running(self) -> list[Running]:
        """Return the calls that have not returned, the last begun first."""
        calls = []
        for offset in _SLOT_OFFSETS:
            stage, number, call, thread, begun = _CALL.unpack(self._read(offset))
            if 0 < stage <= len(_STAGES):
                calls.append(Running(_STAGES[stage - 1], number, call, thread, begun))
        return sorted(calls, key=lambda running: -running.begun)
