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
    """The other side has closed its end, or code of the user's has closed ours."""


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
        self._messages: list[Message] = []
        self._rest = b""

    @property
    def is_due(self) -> bool:
        """Whether `hear` would not wait: a message, or the end, has arrived."""
        return bool(self._messages) or self._can_be_read(seconds=0)

    def hear(self, seconds: float | None = None) -> Message:
        """Wait for the next message. Raises ChannelEnded if none can come, or if nothing comes for so many seconds."""
        while not self._messages:
            if not self._can_be_read(seconds):
                raise ChannelEnded("no message in time")
            self._read()
        return self._messages.pop(0)

    def received(self) -> list[Message]:
        """Return all messages that have arrived; never wait."""
        with contextlib.suppress(ChannelEnded):
            while self._can_be_read(seconds=0):
                self._read()
        messages, self._messages = self._messages, []
        return messages

    def _can_be_read(self, seconds: float | None = None) -> bool:
        poll = select.poll()
        poll.register(self.file, select.POLLIN)
        return bool(poll.poll(None if seconds is None else seconds * 1000))

    def _read(self) -> None:
        try:
            with uninterrupted():
                chunk = os.read(self.file, _CHUNK_BYTES)
                found, self._rest = read_messages(self._rest + chunk)
                self._messages += found
        except OSError as error:
            raise ChannelEnded(str(error)) from error
        if not chunk:
            raise ChannelEnded("end of messages")


class Channel(Receiver):
    """Both directions: messages are read from one pipe, and sent into another."""

    def __init__(self, read: int, write: int) -> None:
        super().__init__(read)
        self.send = Sender(write).send
