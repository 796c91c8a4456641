"""Messages between processes, each a line of JSON."""

from __future__ import annotations

import json
import os
import select
from typing import Any

from minifier.process.interrupts import uninterrupted

Message = dict[str, Any]
_CHUNK_BYTES = 1 << 16


class ConnectionEnded(Exception):
    """The other side has closed its end."""


class Talk:
    """Sends and receives messages through two file descriptors; a Ctrl-C never interrupts within a message."""

    def __init__(self, read: int, write: int) -> None:
        self.read, self.write = read, write
        self._data = b""

    def say(self, message: Message) -> None:
        """Send a message. Raises ConnectionEnded if the other side has ended."""
        data = json.dumps(message).encode() + b"\n"
        try:
            with uninterrupted():
                while data:
                    data = data[os.write(self.write, data) :]
        except OSError as error:
            raise ConnectionEnded(str(error)) from error

    @property
    def is_due(self) -> bool:
        """Whether `hear` would not wait: a message, or the end, has arrived."""
        return bool(self._data or select.select([self.read], [], [], 0)[0])

    def hear(self) -> Message:
        """Return the next message. Skip invalid lines: a killed process may have read the start of a line.
        Raises ConnectionEnded if no further message can come."""
        while True:
            line, newline, rest = self._data.partition(b"\n")
            if newline:
                self._data = rest
                try:
                    message: Message = json.loads(line)
                except ValueError:
                    continue
                if isinstance(message, dict):
                    return message
                continue
            select.select([self.read], [], [])
            try:
                with uninterrupted():
                    chunk = os.read(self.read, _CHUNK_BYTES)
                    self._data += chunk
            except OSError as error:
                raise ConnectionEnded(str(error)) from error
            if not chunk:
                raise ConnectionEnded("end of messages")
