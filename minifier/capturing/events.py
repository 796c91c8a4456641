"""The event log of a script's graphs: a JSON object per line, written before the script continues."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any

from minifier.process.descriptors import identity, out_of_the_way

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
            whole, newline, _ = log.read().rpartition(b"\n")
        self._read += len(whole + newline)
        events = []
        for line in whole.decode(errors="replace").splitlines():
            with contextlib.suppress(ValueError):
                event = json.loads(line)
                events += [event] if isinstance(event, dict) else []
        return events


def forward_of(folder: Path, number: int) -> int | None:
    """Return the number of a backward graph's Dynamo graph; None for other graphs."""
    for event in read_events(folder):
        if event.get("event") == "compiling" and event.get("number") == number:
            forward = event.get("forward")
            return forward if isinstance(forward, int) else None
    return None


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
