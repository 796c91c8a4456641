"""Description of an exception as plain data. Standard library only.

The user's script, probes, and the interpreter that verifies a repro all run this file, because their descriptions are
compared. The interpreter loads the file by path.
"""

from __future__ import annotations

import os
import re
import sys
import traceback
from collections.abc import Callable, Iterator
from typing import Any


def _cause(error: BaseException, owned_frames: set[int]) -> BaseException | None:
    """Return the exception's cause, or None. A context counts only if raised inside the call.

    `raise ... from None` hides a context from readers. The nearest context that the message quotes is still the cause.
    """
    inner = _attribute(error, "inner_exception")
    if isinstance(inner, BaseException):
        return inner
    if error.__cause__ is not None:
        return error.__cause__
    context = error.__context__
    if error.__suppress_context__:
        message = _message(error)
        contexts = (each for each in chain(context) if each is not error)
        context = next((c for c in contexts if quotes(message, _qualified(type(c)), _message(c))), None)
    if context is None or context.__traceback__ is None:
        return None
    # An exception that the script was handling when it called the backend was caught outside this traceback.
    return context if id(context.__traceback__.tb_frame) in owned_frames else None


def chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield the exception, its contexts and its causes, each once; the nearest context first."""
    seen: set[int] = set()
    pending = [error]
    while pending:
        current = pending.pop()
        if current is not None and id(current) not in seen:
            seen.add(id(current))
            yield current
            pending += [current.__cause__, current.__context__]


def status_of_exit(code: object) -> int:
    """Return the exit status of a process after `sys.exit(code)`."""
    return code & 0xFF if isinstance(code, int) else int(code is not None)


def _attribute(error: BaseException, name: str) -> Any:
    """Return an attribute of the user's exception; None if there is none, or if it is a property that raises."""
    try:
        return getattr(error, name, None)
    except Exception:  # noqa: BLE001 - as for a faulty __str__
        return None


def quotes(message: str, kind: str, quoted: str) -> bool:
    """Tell whether a message contains an exception of this type and message, as a wrapper's message does.

    Found are `Kind: message`, `Kind('message')` and a message of several words alone; blanks may differ."""
    name = kind.rpartition(".")[2]
    whole, part = " ".join(message.split()), " ".join(quoted.split())
    if not part:
        return re.search(rf"(?:^|[\s.]){re.escape(name)}(?::(?:\s|$)|\(\))", message) is not None
    as_literal = " ".join(repr(quoted).split())
    return (
        f"{name}: {part}" in whole
        or f"{name}({as_literal}" in whole
        or (part.count(" ") >= _MIN_QUOTED_BLANKS and part in whole)
    )


def _qualified(kind: type) -> str:
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _printable(message: str) -> str:
    """Escape lone surrogates and null bytes, which no file or terminal takes."""
    return message.encode("utf-8", "backslashreplace").decode("utf-8").replace("\0", "\\x00")


_MIN_QUOTED_BLANKS = 2  # shorter messages, such as a key, occur in another by chance
_MAX_TEXT_CHARACTERS = 200_000  # each text is stored and compared many times
_HERE = os.path.dirname(os.path.abspath(__file__))
# A fresh interpreter gets a copy of this file in a separate folder, next to the repro's.
_TOOL = os.path.join(os.path.dirname(os.path.dirname(_HERE)) if os.path.basename(_HERE) == "failure" else _HERE, "")


def _shortened(message: str) -> str:
    if len(message) <= _MAX_TEXT_CHARACTERS:
        return message
    half = _MAX_TEXT_CHARACTERS // 2
    return f"{message[:half]}\n[{len(message) - 2 * half} characters left out]\n{message[-half:]}"


def _message(error: BaseException) -> str:
    try:
        return _printable(_shortened(str(error)))
    except Exception as broken:  # noqa: BLE001 - an exception of the user's may have a faulty __str__
        return f"<{type(error).__name__} whose __str__ raises {type(broken).__name__}>"


def describe(error: BaseException | None) -> list[dict[str, Any]]:
    """Return the chain of exceptions, outermost first, as type, bases, message, frames (module, function, file, line).

    A SystemExit has the exit status too. The members of an exception group follow the group like causes; each exception
    is described once.
    """
    links: list[dict[str, Any]] = []
    seen: set[int] = set()
    pending = [error]
    while pending:
        current = pending.pop()
        if current is None or id(current) in seen:
            continue
        seen.add(id(current))
        frames = []
        owned = set()
        step = current.__traceback__
        while step is not None:
            frame = step.tb_frame
            owned.add(id(frame))
            code = frame.f_code
            frames.append([frame.f_globals.get("__name__") or "", code.co_name, code.co_filename, step.tb_lineno])
            step = step.tb_next
        links.append(
            {
                "type": _qualified(type(current)),
                "bases": [_qualified(base) for base in type(current).__mro__[1:-1]],
                "message": _message(current),
                "frames": frames,
            }
        )
        if isinstance(current, SystemExit):
            links[-1]["exit status"] = status_of_exit(current.code)
        members = _attribute(current, "exceptions")
        pending.append(_cause(current, owned))
        if isinstance(members, (tuple, list)):
            pending += [member for member in reversed(members) if isinstance(member, BaseException)]
    return links


def text(error: BaseException) -> str:
    """Return the traceback in Python's format, without the frames of this tool."""
    summary = traceback.TracebackException.from_exception(error)
    pending: list[traceback.TracebackException | None] = [summary]
    while pending:
        part = pending.pop()
        if part is not None:
            frames = [frame for frame in part.stack if not frame.filename.startswith(_TOOL)]
            part.stack = traceback.StackSummary.from_list(frames)
            pending += [part.__cause__, part.__context__, *(getattr(part, "exceptions", None) or ())]
    return _printable(_shortened("".join(summary.format())))


def report_at_exit(write: Callable[[list[dict[str, Any]], str], None]) -> None:
    """Call `write(links, text)` for an uncaught exception, then let the interpreter end as usual.

    Python's audit event also comes if a package has replaced sys.excepthook.
    """

    def audit(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "sys.excepthook" and isinstance(arguments[2], BaseException):
            try:
                write(describe(arguments[2]), text(arguments[2]))
            except Exception:  # noqa: BLE001 - Python's own report of the exception must follow
                traceback.print_exc()

    sys.addaudithook(audit)
