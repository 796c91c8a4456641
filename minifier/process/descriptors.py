"""Files that the tool keeps open in processes that run the user's code, and the stacks written there."""

from __future__ import annotations

import contextlib
import faulthandler
import fcntl
import linecache
import os
import re
import resource
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

_RESERVED_FILES = 16
_MAX_DESCRIPTOR = 1024  # that is used, even where the limit is higher


def out_of_the_way(file: int) -> int:
    """Move an open file to a high descriptor, and return the new descriptor.

    The system assigns the lowest free descriptor. A script that closes all low descriptors gets low ones for its new
    files, never this descriptor.
    """
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    number = fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, max(3, min(soft, _MAX_DESCRIPTOR) - 40))
    os.close(file)
    return number


class Reserve:
    """Open files that are closed within `with`, so that a Case can be saved after a script ran out of descriptors."""

    def __init__(self) -> None:
        self._held: list[tuple[int, tuple[int, int]]] = []
        self._fill()

    def _fill(self) -> None:
        with contextlib.suppress(OSError):  # there are no more
            while len(self._held) < _RESERVED_FILES:
                number = out_of_the_way(os.memfd_create("reserve"))
                self._held.append((number, identity(number)))

    def __enter__(self) -> None:
        for number, was in self._held:
            with contextlib.suppress(OSError):  # the script has closed it
                if identity(number) == was:
                    os.close(number)
        self._held.clear()

    def __exit__(self, *_: object) -> None:
        self._fill()


def identity(number: int) -> tuple[int, int]:
    """Return (device, inode), to tell the file from a later file with the same descriptor.

    Raises OSError if the descriptor is closed.
    """
    status = os.fstat(number)
    return status.st_dev, status.st_ino


_hidden: list[int] = []  # descriptors of pipes to the tool's own processes


def keep_from_scripts(number: int) -> int:
    """Note a descriptor for `close_for_scripts` to close, and return the descriptor."""
    _hidden.append(number)
    return number


def let_go(number: int) -> None:
    """Close a noted descriptor, and forget its number: a file of the user's may get the number next."""
    _hidden.remove(number)
    os.close(number)


def close_for_scripts() -> None:
    """Close the noted descriptors, in a process that is about to run the user's code.

    A daemon started by that code would hold the pipes open for ever.
    """
    while _hidden:
        with contextlib.suppress(OSError):
            os.close(_hidden.pop())


ASK = signal.SIGRTMAX - 1  # a process with a stack file writes its stacks when it is sent this
_SECTION = re.compile(r"^(?:Current thread|Thread) (0x[0-9a-f]+)[^\n]*\n((?:  [^\n]*\n?)*)", re.MULTILINE)
_FRAME = re.compile(r'  File "(?P<file>[^"\n]*)", line (?P<line>\d+|\?\?\?) in (?P<function>[^\n]*)')
_TOOL = str(Path(__file__).parents[1]) + os.sep
_FATAL = re.compile(r"^Fatal Python error: (Aborted|Bus|Floating|Illegal|Segmentation)\b.*\n", re.MULTILINE)
_FATAL_SIGNALS = {
    "Aborted": signal.SIGABRT,
    "Bus": signal.SIGBUS,
    "Floating": signal.SIGFPE,
    "Illegal": signal.SIGILL,
    "Segmentation": signal.SIGSEGV,
}
_stack_descriptor: int | None = None  # of this process's stack file, for fatal signals
_USER_CODE_CALLERS: set[tuple[str, str]] = set()  # (file, function)

_Function = TypeVar("_Function", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class StackFile:
    """The file into which a child writes its stacks on request, and the time limit in seconds."""

    path: Path
    seconds: float


def calls_user_code(function: _Function) -> _Function:
    """Mark the function as a caller of the user's code: `read_stack` omits its frame and the outer frames."""
    _USER_CODE_CALLERS.add((function.__code__.co_filename, function.__name__))
    return function


def stack_file(path: Path) -> None:
    """From now on, write this process's Python stacks into the file upon a fatal signal or `ASK`.

    The fatal signals are SIGSEGV, SIGABRT, SIGFPE, SIGILL and SIGBUS. The process survives `ASK`.

    If the user has switched `faulthandler` on, fatal signals stay the user's. A handler of `ASK` stays as well. Forks
    of this process write nothing.
    """
    global _stack_descriptor
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    number = out_of_the_way(file)
    ours = identity(number)

    def mute() -> None:
        with contextlib.suppress(OSError):  # the script has closed it
            if identity(number) == ours:
                nothing = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nothing, number, inheritable=False)
                os.close(nothing)

    os.register_at_fork(after_in_child=mute)
    if not faulthandler.is_enabled():
        faulthandler.enable(number)
        _stack_descriptor = number
    if signal.getsignal(ASK) is signal.SIG_DFL:
        faulthandler.register(ASK, number)


@contextlib.contextmanager
def after_stack_file() -> Iterator[None]:
    """Let handlers of fatal signals that the block installs run once this process has written its stack file.

    They may hang, in the allocator's lock for example: `fatal_signal_in` tells the parent in time.
    """
    if _stack_descriptor is None:
        yield
        return
    faulthandler.disable()
    try:
        yield
    finally:
        faulthandler.enable(_stack_descriptor)


def fatal_signal_in(path: Path) -> int | None:
    """Return the fatal signal that has made a process write its stacks into this file; None if there was none."""
    try:
        found = _FATAL.search(path.read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return None
    return _FATAL_SIGNALS[found[1]] if found is not None else None


def read_stack(path: Path, thread: int | None = None, *, dying: bool = False) -> str:
    """Return a stack of the file as a traceback without this tool's frames, the innermost frame last.

    The stack is of `thread`, a number of `threading.get_ident`, or else of the thread that got the signal. With
    `dying`, only a `thread` that got the signal counts. "" if the file has no matching stack.
    """
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:  # it never came so far as to make the file
        return ""
    sections = list(_SECTION.finditer(text))
    asked = [found for found in sections if thread is not None and int(found.group(1), 16) == thread]
    current = [found for found in sections if found.group(0).startswith("Current")]
    if dying:
        asked, current = [found for found in asked if found in current], []
    for found in (asked or current)[-1:]:
        return _as_traceback(found.group(2))
    return ""


def _as_traceback(frames: str) -> str:
    """Convert faulthandler's lines, the innermost frame first, to the order and words of a traceback."""
    lines = []
    for line in frames.splitlines():
        found = _FRAME.fullmatch(line)
        if found is None:  # "  ...": there are more frames than it writes
            lines.append(line)
        elif (found["file"], found["function"]) in _USER_CODE_CALLERS:
            break
        elif not found["file"].startswith(_TOOL) and found["file"] != "<frozen runpy>":
            source = linecache.getline(found["file"], int(found["line"])).strip() if found["line"].isdigit() else ""
            where = f'  File "{found["file"]}", line {found["line"]}, in {found["function"]}'
            lines.append(f"{where}\n    {source}" if source else where)
    return "\n".join(["Stack (most recent call last):", *reversed(lines)]) + "\n" if lines else ""
