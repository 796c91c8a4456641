"""Messages from one process of the tool to another: objects of JSON, a line each, through a pipe."""

from __future__ import annotations

import contextlib
import json
import os
import select
from typing import Any

from minifier.process.descriptors import identity
from minifier.process.interrupts import uninterrupted

Message = dict[str, Any]
_CHUNK_BYTES = 1 << 16


class ChannelEnded(Exception):
    """The other side has closed its end, or code of the user's has closed ours: nothing can be sent."""


def read_messages(data: bytes) -> tuple[list[Message], bytes]:
    """Return the complete messages in `data`, and the beginning of the next one.

    What is no message is left out: a killed process may have read the start of a line, and code of the user's may have
    written into the pipe that it inherited.
    """
    *lines, rest = data.split(b"\n")
    found = []
    for line in lines:
        with contextlib.suppress(ValueError):
            message = json.loads(line)
            if isinstance(message, dict):
                found.append(message)
    return found, rest


class Sender:
    """The end of a pipe that messages are written to."""

    def __init__(self, file: int) -> None:
        self.file = file
        self._identity = identity(file)

    def send(self, **message: Any) -> None:
        """Send a message whole: a Ctrl-C does not cut it in two. Raises ChannelEnded."""
        data = json.dumps(message).encode() + b"\n"
        try:
            with uninterrupted():
                while data:
                    if identity(self.file) != self._identity:
                        raise ChannelEnded("another file has the number of the pipe")
                    data = data[os.write(self.file, data) :]
        except OSError as error:
            raise ChannelEnded(str(error)) from error


class Receiver:
    """The end of a pipe that messages are read from."""

    def __init__(self, file: int) -> None:
        self.file = file
        self._rest = b""

    def received(self) -> list[Message]:
        """Return all messages that have arrived; never wait."""
        poll = select.poll()
        poll.register(self.file, select.POLLIN)
        messages: list[Message] = []
        with contextlib.suppress(OSError):
            while poll.poll(0):
                with uninterrupted():
                    chunk = os.read(self.file, _CHUNK_BYTES)
                    found, self._rest = read_messages(self._rest + chunk)
                    messages += found
                if not chunk:  # the end of messages
                    break
        return messages
