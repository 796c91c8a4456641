"""What happened to the graphs of a script, in a file: one JSON object a line, on disk before the next thing happens."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any

from minifier.process.descriptors import identity, out_of_the_way

EVENTS = "events.jsonl"


def read_events(folder: Path) -> list[dict[str, Any]]:
    """The events in a folder, as far as they can be read: who wrote them may have died while it wrote the last."""
    path = folder / EVENTS
    found = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines() if path.is_file() else ():
        with contextlib.suppress(ValueError):
            event = json.loads(line)
            found += [event] if isinstance(event, dict) else []
    return found


def forward_of(folder: Path, number: int) -> int | None:
    """Of a backward graph, the number of Dynamo's graph that it belongs to."""
    for event in read_events(folder):
        if event.get("event") == "compiling" and event.get("number") == number:
            found = event.get("forward")
            return found if isinstance(found, int) else None
    return None


class EventLog:
    """The file. One that is `forgiving` loses what cannot be written: a full disk is nothing that a process which is
    not this tool's has to die of."""

    def __init__(self, path: Path, *, forgiving: bool = False) -> None:
        self._path = path.absolute()
        self._forgiving = forgiving
        self.pid = os.getpid()
        self._open()

    def _open(self) -> None:
        self._file = out_of_the_way(os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600))
        self._is = identity(self._file)

    def _is_open(self) -> bool:
        """Whether the script has not closed the file, nor has another under its number."""
        try:
            return identity(self._file) == self._is
        except OSError:
            return False

    def write(self, event: str, **facts: Any) -> None:
        """Appends the event; a process that the script forked writes nothing."""
        if os.getpid() != self.pid:
            return
        try:
            # Held open: a script may open files until it gets no more. Opened again: it may close all that it finds.
            if not self._is_open():
                self._open()
            data = (json.dumps({"event": event, **facts}) + "\n").encode()
            while data:
                data = data[os.write(self._file, data) :]
        except OSError:
            if not self._forgiving:
                raise
