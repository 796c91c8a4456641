"""Pass an exception from one process of the tool to another, as JSON."""

from __future__ import annotations

import importlib
import json
import operator
import traceback

from minifier.errors import MinifyError, ToolFailed
from minifier.process.machine_failures import machine_failure

_MAX_CHARACTERS = 1 << 14
MAX_BYTES = 16 * _MAX_CHARACTERS  # JSON has up to 12 bytes for a character, and a little beside it


def serialised(error: BaseException) -> bytes:
    """Serialise the class of an exception with the beginning of its message, or the end of its traceback.

    A MinifyError keeps its class, an error of the machine becomes MachineFailed, any other is this tool's own fault.
    """
    kind, message = type(error), str(error)[:_MAX_CHARACTERS]
    if (failure := machine_failure(error)) is not None:
        kind, message = type(failure), str(failure)
    elif not isinstance(error, MinifyError):
        kind, message = ToolFailed, "".join(traceback.format_exception(error))[-_MAX_CHARACTERS:]
    message = message.encode(errors="backslashreplace").decode()  # of lone surrogates no file can be made
    return json.dumps([kind.__module__, kind.__qualname__, message]).encode()


def deserialised(data: bytes) -> MinifyError:
    """Return the exception that another process serialised."""
    module, name, message = json.loads(data)
    error: MinifyError = operator.attrgetter(name)(importlib.import_module(module))(message)
    return error
