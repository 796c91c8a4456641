"""The lines that are logged during backend calls."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from typing import Any

from minifier.capturing.backend_call import BackendCall
from minifier.capturing.events import EventLog
from minifier.process.logs import LogLine

_MAX_LINES = 100  # distinct pairs of graph and line, for one script


class LoggedLines:
    """Writes the lines of backend calls to the event log, and matches them against the pattern of --match-log."""

    def __init__(self, log: EventLog, pattern: str | None) -> None:
        self._log = log
        self._pattern = re.compile(pattern) if pattern is not None else None
        self._seen: set[tuple[int, str]] = set()

    def heard(self, logged: LogLine, call: BackendCall | None, running: Sequence[BackendCall]) -> None:
        """Note a line that was logged in `call`, the innermost of its thread, while these calls were running."""
        if call is None and self._pattern is not None and len(running) == 1:
            call = running[0]  # a backend's own thread may have logged the line
        if call is None:
            return
        number, line = call.record.number, logged.line
        if (number, line) not in self._seen and len(self._seen) < _MAX_LINES:
            self._seen.add((number, line))
            self._log.write("logged", number=number, logger=logged.logger, level=logged.level, message=logged.message)
        if self._pattern is not None and not call.matched and self._pattern.search(line):
            call.matched = line


def warnings_logged(events: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the distinct lines of level WARNING and above among these events."""
    warnings = [e for e in events if e["event"] == "logged" and e["level"] >= logging.WARNING]
    return tuple(dict.fromkeys(LogLine(e["logger"], e["level"], e["message"]).line for e in warnings))
