"""Notes what a script sees of its variables around each call of compiled code, for a comparison of two runs.

Code outside of graphs may go wrong under torch.compile while each graph is right: an attribute that is not set, a hook
that is not called, a branch that is taken by a stale guard. The script is the only one to see that.
"""

from __future__ import annotations

import hashlib
import itertools
import pickle
import random
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from time import perf_counter  # which `hurry` leaves as it is
from types import CodeType, FrameType
from typing import Any

import torch

from minifier.capturing.script import ScriptEnd
from minifier.torch_side.compare.results import random_digest, random_state_kept
from minifier.torch_side.compare.visible import Leaf, leaves_of
from minifier.torch_side.torch_private import dynamo, modes

_NOTES = "notes.pickle"
_SEED = 0
_ALL_CALLS = 16  # of compiled code that are noted; after these each whose number is a power of two
_MAX_SECONDS = 20.0  # for all notes
_CLOCKS = ("time", "perf_counter", "monotonic", "process_time")
_FASTER = 1000
RESULT = "result"  # the name of what a call returned, in expressions


class Moment(Enum):
    """When something was noted."""

    BEFORE = "before a call of compiled code"
    AFTER = "after a call of compiled code"
    RETURNED = "at the end of a function"
    ENDED = "at the end of the script"


@dataclass(frozen=True, slots=True)
class Place:
    """Where the script is: its line, and the range of columns of the running call (None below Python 3.11).

    `function` is the name and first line of the innermost function of the script; the name is empty in its module.
    """

    line: int
    columns: tuple[int, int, int, int] | None = None  # line, column, last line, column after the end; lines from 1
    function: tuple[str, int] = ("", 0)


@dataclass(frozen=True, slots=True)
class Note:
    """What the script saw at a moment: leaves by expression."""

    moment: Moment
    place: Place
    leaves: Mapping[str, Leaf] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Notes:
    """The notes of a run in their order, and the type of the exception that ended it, if any, with its line.

    `draws` has, for each note after a call, a digest of the states of random numbers. `of_backends` are the variables
    that the backends' own code reads or that hold a backend: compiling changes them.
    """

    notes: tuple[Note, ...]
    error: str = ""
    line: int = 0
    draws: Mapping[int, str] = field(default_factory=dict)
    of_backends: frozenset[str] = frozenset()

    @classmethod
    def read(cls, folder: Path) -> Notes | None:
        """Read what a run noted; None if it died."""
        try:
            notes = pickle.loads((folder / _NOTES).read_bytes())
        except (OSError, EOFError, pickle.UnpicklingError):  # the process died, perhaps as it wrote
            return None
        assert isinstance(notes, cls)
        return notes


class WatchedScript:
    """Notes what the script in `file` sees. `written` writes the notes to `folder` at the script's end.

    `backends` grows by each backend that is called.
    """

    def __init__(self, file: str, folder: Path, backends: Sequence[Any]) -> None:
        self._file, self._folder, self._backends = file, folder, backends
        self._notes: list[Note] = []
        self._draws: dict[int, str] = {}
        self._seconds = 0.0
        self._last: dict[CodeType, tuple[FrameType, Place]] = {}  # the last call of each function with a noted call
        self._calls = 0
        self._is_inside = False

    def start(self) -> None:
        """Note from now on. Seed the generators of random numbers, as both runs have to draw the same."""
        torch.manual_seed(_SEED)
        random.seed(_SEED)
        if (numpy := sys.modules.get("numpy")) is not None:
            numpy.random.seed(_SEED)
        dynamo.observe_compiled_calls(self._around)

    def written(self, end: ScriptEnd) -> None:
        """Note the variables of the script at its end, and write all notes."""
        self._is_inside = True
        for frame, place in self._last.values():
            if place.function[0]:
                self._note(Moment.RETURNED, place, frame.f_locals)
        main = sys.modules.get("__main__")
        if main is not None:
            self._note(Moment.ENDED, Place(0), vars(main))
        error, line = "", 0
        if end.links:
            error = str(end.links[0]["type"]).rpartition(".")[2]
            frames = [frame for frame in end.links[0]["frames"] if frame[2] == self._file]
            line = frames[-1][3] if frames else 0
        error = error or ("SystemExit" if end.status else "")
        held = [name for name, value in vars(main).items() if any(value is each for each in self._backends)]
        of_backends = frozenset([*held, *(name for each in self._backends for name in self._names_in(each))])
        notes = Notes(tuple(self._notes), error, line, self._draws, of_backends)
        (self._folder / _NOTES).write_bytes(pickle.dumps(notes))

    def _names_in(self, backend: Any) -> Iterator[str]:
        """Yield the names that the code of a backend of the script reads, a function or an instance."""
        function = getattr(backend, "func", backend)  # of a partial
        code = getattr(function, "__code__", None) or getattr(type(function).__call__, "__code__", None)
        if isinstance(code, CodeType) and code.co_filename == self._file:
            yield from (*code.co_names, *code.co_freevars)

    def _around(self, call: Callable[[], Any]) -> Any:
        frame = None if self._is_inside else self._frame()
        if frame is None:
            return call()
        self._calls += 1
        place = _place(frame)
        self._last[frame.f_code] = frame, place
        if self._calls > _ALL_CALLS and self._calls & (self._calls - 1):
            return self._inside(call)
        self._note(Moment.BEFORE, place, frame.f_locals)
        result = self._inside(call)
        self._draws[len(self._notes)] = _draws()
        self._note(Moment.AFTER, place, {RESULT: None} | frame.f_locals | {RESULT: result})
        return result

    def _inside(self, call: Callable[[], Any]) -> Any:
        self._is_inside = True
        try:
            return call()
        finally:
            self._is_inside = False

    def _frame(self) -> FrameType | None:
        frames = (frame for frame, _ in traceback.walk_stack(sys._getframe(1)))
        return next((frame for frame in frames if frame.f_code.co_filename == self._file), None)

    def _note(self, moment: Moment, place: Place, variables: Mapping[str, Any]) -> None:
        began = perf_counter()
        shown = {name: value for name, value in variables.items() if not name.startswith("__") and name.isidentifier()}
        leaves: dict[str, Leaf] = {}
        if self._seconds < _MAX_SECONDS and not modes.is_capturing():
            with random_state_kept(), modes.without_modes(), torch.no_grad():
                leaves = leaves_of(shown)
        self._notes.append(Note(moment, place, leaves))
        self._seconds += perf_counter() - began


def _draws() -> str:
    """Return a digest of the states of torch's, Python's and NumPy's random numbers."""
    digest = hashlib.sha256(repr(random.getstate()).encode())
    digest.update(random_digest())
    if (numpy := sys.modules.get("numpy")) is not None:
        digest.update(repr(numpy.random.get_state()).encode())
    return digest.hexdigest()


def hurry() -> None:
    """Let this process's clocks run faster, so that what a script computes of times differs from another run's."""
    for name in _CLOCKS:
        for clock in (name, f"{name}_ns"):
            real = getattr(time, clock)
            setattr(time, clock, lambda real=real: real() * _FASTER)


def _place(frame: FrameType) -> Place:
    code, columns = frame.f_code, None
    if sys.version_info >= (3, 11):
        position = next(itertools.islice(code.co_positions(), frame.f_lasti // 2, None), None)  # type: ignore[attr-defined]
        if position is not None and None not in position:
            line, last, column, end = position
            columns = (line, column, last, end)
    name = "" if code.co_name == "<module>" else code.co_name
    return Place(frame.f_lineno, columns, (name, code.co_firstlineno if name else 0))
