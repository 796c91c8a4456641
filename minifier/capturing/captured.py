"""The outcome of a script's run, and the event log from which it is read."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from minifier.data.case import BackendReference
from minifier.data.case.store import CASE, load, save
from minifier.data.failure import Failure, Stage
from minifier.data.torch_names import ERRORS_OF_COMPILE, FOLDERS_OF_COMPILE, INVALID_BACKEND
from minifier.process.channel import read_messages
from minifier.process.descriptors import identity, out_of_the_way
from minifier.process.forked_step import StepEnd


@dataclass(frozen=True, slots=True)
class FailingGraph:
    """A backend call that failed, and the failure in a sentence. Its Case is in `folder`, in the folder of the run.

    unsaved: why the Case could not be saved; else empty.
    inputs_lost: why the Case lacks the call's original inputs, so that the script must run again; else empty.
    call: counts the compiled function's calls from 1; 0 while compiling.
    forward: for a backward pass, the number of its graph.
    """

    folder: Path
    sentence: str
    failure: Failure
    reference: BackendReference
    ops: int | None
    call: int = 0
    unsaved: str = ""
    inputs_lost: str = ""
    forward: int | None = None

    @property
    def number(self) -> int:
        """The graph's number among those of the script, which names the folder."""
        return int(self.folder.name)

    @property
    def stage(self) -> Stage:
        """The stage at which it failed."""
        return self.failure.fingerprint.stage


@dataclass(frozen=True, slots=True)
class FellBack:
    """A backend call that caught its own exception or did not compile the graph itself, as `sentence` describes.

    is_whole: inductor or eager got the graph instead. is_left: they got it, or a part of it.
    line: the backend's log line about the fallback, or "".
    is_plain: the backend hands work to inductor, and caught no exception: it may be made that way.
    """

    graph: int
    sentence: str
    is_whole: bool
    is_left: bool
    line: str
    is_plain: bool = False


@dataclass(frozen=True, slots=True)
class Captured:
    """The outcome of a run of the script, with its Cases in `folder`.

    graphs: how many graphs the backend got.
    declined: for each graph that the backend gave back by an exception of Dynamo's own, as SkipFrame, its type.
    repeated: failures with the sentence and op count of an earlier failure.
    environment: torch's variables that the script itself set; torch, imported before the script, ignored these.
    logged: distinct log lines of level WARNING and above from backend calls.
    slowest: seconds of the longest backend call that returned.
    forwards: numbers of Dynamo's graphs, in order.
    trained: graphs that a backward pass reached, as positions in `forwards` from 1.
    changed: graphs whose inputs the backend changed while it compiled them, as positions in `forwards` from 1.
    calls: (position in `forwards` from 1, how often that graph was called).
    compared: (graph, call, with gradients) for each call that agreed with eager.
    excused: (graph, call, sentence) for large differences that eager's own variation excuses.
    furthest: of all results that agreed, the one that comes closest to its limit.
    fallbacks: backend calls that caught an exception, or left the graph to inductor or eager.
    not_compared: (graph, reason).
    bounded: seconds of comparing after which no further calls were compared; 0 if all chosen calls were.
    lost: position in `forwards` from 1 of the graph in whose comparison the process died or was killed.
    path: folders that the script added to the import path.
    children: seconds that processes computed which the script started and waited for.
    failure: how the script failed outside of its backend calls, by an exception, a status or a signal.
    was_killed: the script's process died of SIGKILL, which this tool did not send.
    has_lingered: this tool ended the process, which did not end after the script's own code had ended.
    slips: tracebacks of this tool's own errors, which ended optional steps.
    """

    folder: Path
    end: StepEnd
    graphs: int
    failing: tuple[FailingGraph, ...]
    seconds: float
    repeated: tuple[FailingGraph, ...] = ()
    error: str = ""
    traceback: str = ""
    script_status: int | None = None
    backends: tuple[str, ...] = ()
    declined: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    logged: tuple[str, ...] = ()
    slowest: float = 0.0
    forwards: tuple[int, ...] = ()
    trained: frozenset[int] = frozenset()
    changed: frozenset[int] = frozenset()
    calls: tuple[tuple[int, int], ...] = ()
    compared: tuple[tuple[int, int, bool], ...] = ()
    excused: tuple[tuple[int, int, str], ...] = ()
    furthest: str = ""
    fallbacks: tuple[FellBack, ...] = ()
    not_compared: tuple[tuple[int, str], ...] = ()
    bounded: float = 0.0
    lost: int | None = None
    path: tuple[str, ...] = ()
    children: float = 0.0
    failure: Failure | None = None
    was_killed: bool = False
    has_lingered: bool = False
    slips: tuple[str, ...] = ()


def complete(folder: Path, seconds: float, slowest: float, graphs: int) -> None:
    """Add the script's total time, its longest backend call and its graph count to a Case."""
    if (folder / CASE).exists():
        case = load(folder)
        save(replace(case, script=replace(case.script, seconds=seconds, slowest=slowest, graphs=graphs)), folder)


def is_of_torch(error: str, trace: str) -> bool:
    """Whether torch.compile itself raised the error, not the script or one of its libraries."""
    if INVALID_BACKEND in error:  # an unregistered backend name
        return False
    if error.startswith(ERRORS_OF_COMPILE):
        return True
    raised, _, _ = trace.partition("\nfrom user code:")  # where Dynamo lists frames of the user's
    files = [line for line in raised.splitlines() if line.lstrip().startswith('File "')]
    last = files[-1] if files else ""
    return any(folder in last for folder in FOLDERS_OF_COMPILE)


EVENTS = "events.jsonl"


def read_events(folder: Path) -> list[dict[str, Any]]:
    """Return a folder's events; the last line may be incomplete if its process died, and is skipped then."""
    return EventReader(folder).new_events()


class EventReader:
    """Reads a folder's events as they come."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / EVENTS
        self._read = 0  # bytes

    def new_events(self) -> list[dict[str, Any]]:
        """Return the events since the last call. An incomplete last line waits for the next call."""
        if not self._path.is_file():
            return []
        with self._path.open("rb") as log:
            log.seek(self._read)
            data = log.read()
        events, rest = read_messages(data)
        self._read += len(data) - len(rest)
        return events


class EventLog:
    """Appends events to the file. If `forgiving`, a failed write (full disk) loses the event: the process goes on."""

    def __init__(self, path: Path, *, forgiving: bool = False) -> None:
        self._path = path.absolute()
        self._forgiving = forgiving
        self.pid = os.getpid()
        self._open()

    def _open(self) -> None:
        self._file = out_of_the_way(os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600))
        self._identity = identity(self._file)

    def _is_open(self) -> bool:
        """Whether the descriptor is still this file: the script may close the file and reuse the number."""
        try:
            return identity(self._file) == self._identity
        except OSError:
            return False

    def write(self, event: str, **facts: Any) -> None:
        """Append the event; do nothing in the script's own forks."""
        if os.getpid() != self.pid:
            return
        try:
            # Kept open, as the script may use up all descriptors; reopened, as it may close all descriptors.
            if not self._is_open():
                self._open()
            data = (json.dumps({"event": event, **facts}) + "\n").encode()
            while data:
                data = data[os.write(self._file, data) :]
        except OSError:
            if not self._forgiving:
                raise
