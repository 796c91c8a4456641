"""Messages between processes: a line of JSON each."""

from __future__ import annotations

import json
from typing import IO, Any

Message = dict[str, Any]


class Ended(Exception):
    """The other side has closed its end."""


def send(stream: IO[bytes], message: Message) -> None:
    """Raises Ended where nobody reads any more."""
    try:
        stream.write(json.dumps(message).encode() + b"\n")
        stream.flush()
    except (BrokenPipeError, ValueError) as error:
        raise Ended(str(error)) from error


def receive(stream: IO[bytes]) -> Message:
    """The next message; raises Ended where none will come."""
    line = stream.readline()
    if not line.endswith(b"\n"):
        raise Ended("end of messages")
    message: Message = json.loads(line)
    return message
