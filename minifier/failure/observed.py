"""Describes an exception as plain data. Standard library only.

The same lines run in three places: in the user's script, in a probe, and (loaded by path) in the fresh
interpreter that verifies a repro. What they write is compared, so they must not differ.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from typing import Any


def _cause(error: BaseException, owned_frames: set[int]) -> BaseException | None:
    """The exception behind this one, or None. A context counts only if it was raised inside the call."""
    inner = getattr(error, "inner_exception", None)
    if isinstance(inner, BaseException):
        return inner
    if error.__cause__ is not None:
        return error.__cause__
    context = error.__context__
    if context is None or error.__suppress_context__ or context.__traceback__ is None:
        return None
    # An exception that the script was already handling when it called the backend was caught in a frame
    # outside this traceback; it has nothing to do with the failure.
    return context if id(context.__traceback__.tb_frame) in owned_frames else None


def _qualified(kind: type) -> str:
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _printable(message: str) -> str:
    """The text with what no file or terminal takes (lone surrogates, null bytes) escaped."""
    return message.encode("utf-8", "backslashreplace").decode("utf-8").replace("\0", "\\x00")


_LONGEST = 200_000
_HERE = os.path.dirname(os.path.abspath(__file__))
# In a fresh interpreter a copy of this file lies in a folder of its own, beside the one that the repro is run in.
_TOOL = os.path.join(os.path.dirname(_HERE) if os.path.basename(_HERE) == "failure" else _HERE, "")


def _shortened(message: str) -> str:
    """A message that is not too long to be kept and compared many times."""
    if len(message) <= _LONGEST:
        return message
    half = _LONGEST // 2
    return f"{message[:half]}\n[{len(message) - 2 * half} characters left out]\n{message[-half:]}"


def _message(error: BaseException) -> str:
    try:
        return _printable(_shortened(str(error)))
    except Exception as broken:  # noqa: BLE001 - an exception of the user's may have a faulty __str__
        return f"<{type(error).__name__} whose __str__ raises {type(broken).__name__}>"


def describe(error: BaseException | None) -> list[dict[str, Any]]:
    """A list of links, outermost first: type, message and frames (module, function, file, line). The
    members of a group follow it as if they were its causes."""
    links: list[dict[str, Any]] = []
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        frames = []
        owned = set()
        step = error.__traceback__
        while step is not None:
            frame = step.tb_frame
            owned.add(id(frame))
            code = frame.f_code
            frames.append([frame.f_globals.get("__name__") or "", code.co_name, code.co_filename, step.tb_lineno])
            step = step.tb_next
        links.append(
            {
                "type": _qualified(type(error)),
                "bases": [_qualified(base) for base in type(error).__mro__[1:-1]],
                "message": _message(error),
                "frames": frames,
            }
        )
        for member in getattr(error, "exceptions", ()):
            if isinstance(member, BaseException):
                links += describe(member)
        error = _cause(error, owned)
    return links


def text(error: BaseException) -> str:
    """The traceback as Python prints it, without the frames of this tool."""
    told = traceback.TracebackException.from_exception(error)
    _leave_out_tool(told)
    return _printable(_shortened("".join(told.format())))


def _leave_out_tool(told: traceback.TracebackException | None) -> None:
    if told is None:
        return
    kept = [frame for frame in told.stack if not frame.filename.startswith(_TOOL)]
    told.stack = traceback.StackSummary.from_list(kept)
    for other in (told.__cause__, told.__context__, *(getattr(told, "exceptions", None) or ())):
        _leave_out_tool(other)


def report_at_exit(write: Callable[[list[dict[str, Any]], str], None]) -> None:
    """Calls `write(links, text)` for an exception that ends the interpreter, which ends as always.

    Python announces it by an audit event, whatever a package has put into sys.excepthook.
    """

    def audit(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "sys.excepthook" and isinstance(arguments[2], BaseException):
            write(describe(arguments[2]), text(arguments[2]))

    sys.addaudithook(audit)
