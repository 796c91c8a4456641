"""Messages between processes: a line of JSON each."""

from __future__ import annotations

import json
import os
import select
import signal
from typing import Any

Message = dict[str, Any]
_CHUNK = 1 << 16


class ConnectionEnded(Exception):
    """The other side has closed its end."""


class Talk:
    """Both ends of a talk that a Ctrl-C may interrupt, but not in the middle of a message. `read` and `write` are open
    files."""

    def __init__(self, read: int, write: int) -> None:
        self.read, self.write = read, write
        self._data = b""

    def say(self, message: Message) -> None:
        """Raises ConnectionEnded where nobody reads any more."""
        data = json.dumps(message).encode() + b"\n"
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            while data:
                data = data[os.write(self.write, data) :]
        except OSError as error:
            raise ConnectionEnded(str(error)) from error
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    @property
    def is_due(self) -> bool:
        """Whether there is something to hear, if only the end."""
        return bool(self._data or select.select([self.read], [], [], 0)[0])

    def hear(self) -> Message:
        """Return the next message; skip lines that are none, such as the tail of one that a killed process was reading.

        Raises ConnectionEnded if no further message can come.
        """
        while True:
            line, found, rest = self._data.partition(b"\n")
            if found:
                self._data = rest
                try:
                    message: Message = json.loads(line)
                except ValueError:
                    continue
                if isinstance(message, dict):
                    return message
                continue
            select.select([self.read], [], [])
            mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
            try:
                chunk = os.read(self.read, _CHUNK)
                self._data += chunk
            except OSError as error:
                raise ConnectionEnded(str(error)) from error
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            if not chunk:
                raise ConnectionEnded("end of messages")
