"""What the script's process is doing, in memory that the waiting process sees: which backend calls are running.

A process that dies or hangs can say nothing more; what it wrote here before each backend call stays.
"""

from __future__ import annotations

import mmap
import struct
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from minifier.failure import Stage

_STAGES = tuple(Stage)
_NUMBERS = {stage: number for number, stage in enumerate(_STAGES, 1)}
_HEAD = struct.Struct("=Qd")  # whether the program ended by itself; seconds of the slowest call that came back
_CALL = struct.Struct("=QQQQd")  # stage from 1 (0: nothing runs), graph, call, thread, when it began
_NOTHING = bytes(_CALL.size)
_THREADS = 100  # at once; calls of more than these are not noted
_FIRST = 64


@dataclass(frozen=True, slots=True)
class Running:
    """A backend call that has not come back: the graph's number, which call of the compiled function (0 while
    compiling), the thread as `threading.get_ident` has it, and the monotonic clock, in seconds, at its beginning. At
    the stage COMPARE the call is 1 for the comparison's call of the compiled function, and 0 for all else of it."""

    stage: Stage
    number: int
    call: int
    thread: int
    begun: float


# What `leave` needs of `enter`: the place, what was there, and when the call began.
Token = tuple[int, bytes, float]


class _OwnSlot(threading.local):
    place = 0


class RunningCalls:
    """Made before the fork, or with a `path` on that file; the child writes, the parent reads. Writing costs about a
    microsecond.

    Each thread that is in a backend call has a place of its own, with the innermost of its calls.
    """

    def __init__(self, path: Path | None = None) -> None:
        size = _FIRST + _THREADS * _CALL.size
        if path is None:
            self._memory = mmap.mmap(-1, size)  # anonymous, shared: no file to close or remove
        else:  # for who comes when the process is no more
            with path.open("a+b") as file:
                if path.stat().st_size < size:
                    file.truncate(size)
                self._memory = mmap.mmap(file.fileno(), size)
        self._free = [_FIRST + i * _CALL.size for i in reversed(range(_THREADS))]
        self._mine = _OwnSlot()
        self._slowest = 0.0

    def enter(self, stage: Stage, number: int, call: int) -> Token | None:
        """Notes that a backend call begins in this thread; a process forked by the script must not do this."""
        mine, memory = self._mine, self._memory
        place = mine.place
        if place:
            outer = memory[place : place + _CALL.size]
        else:
            try:
                place = self._free.pop()
            except IndexError:  # more threads than places
                return None
            mine.place, outer = place, b""
        now = time.monotonic()
        _CALL.pack_into(memory, place, _NUMBERS[stage], number, call, threading.get_ident(), now)
        return place, outer, now

    def leave(self, token: Token | None, *, counts: bool = True) -> None:
        """Notes that the call came back, by an exception too; the call around it is running again. Without `counts`
        it says nothing about how long the script's calls take."""
        if token is None:
            return
        place, outer, begun = token
        self._memory[place : place + _CALL.size] = outer or _NOTHING
        if not outer:
            self._mine.place = 0
            self._free.append(place)
        lasted = time.monotonic() - begun
        if counts and lasted > self._slowest:
            self._slowest = lasted
            _HEAD.pack_into(self._memory, 0, 0, lasted)

    def ended(self) -> None:
        """Notes that the program ended by itself: calls of threads that it leaves behind did not fail."""
        _HEAD.pack_into(self._memory, 0, 1, self._slowest)

    @property
    def has_ended(self) -> bool:
        """Whether the program came to its end."""
        return bool(_HEAD.unpack_from(self._memory, 0)[0])

    @property
    def slowest(self) -> float:
        """Seconds of the slowest call that came back."""
        return float(_HEAD.unpack_from(self._memory, 0)[1])

    def running(self) -> list[Running]:
        """The calls that have not come back, the last begun first."""
        found = []
        for i in range(_THREADS):
            stage, number, call, thread, begun = _CALL.unpack_from(self._memory, _FIRST + i * _CALL.size)
            if 0 < stage <= len(_STAGES):
                found.append(Running(_STAGES[stage - 1], number, call, thread, begun))
        return sorted(found, key=lambda each: -each.begun)
