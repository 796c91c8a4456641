"""Note which environment variables and files a package's code reads while the script runs.

A backend may read its settings when it is imported, long before it is known to be the backend. So each read is noted
with the packages on the stack. The script sees no change: no function that it can call is replaced.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Collection
from types import FrameType
from typing import Any

from minifier.case.literals import SCRIPT

_MAX_READS = 1000  # variables and files that are noted
_MAX_NAMED = 12  # of a backend
_MAX_FRAMES = 300  # of the stack of a read
# Modules that read files for the interpreter, not for the code that calls them.
_READERS_OF_CODE = ("importlib", "linecache", "tokenize", "inspect", "traceback", "zipimport", "warnings")
_CODE = (".py", ".pyc", ".so", ".pth")
_OF_SYSTEM = ("/proc/", "/sys/", "/dev/")
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT

_variables: dict[str, set[str]] = {}
_files: dict[str, set[str]] = {}


def note_reads() -> None:
    """Note all reads of this process from now on; meant for the child that runs the script."""
    encode = os.environ.encodekey  # called by each read of a variable; its caller tells a read from a write

    def encodekey(key: Any) -> Any:
        frame = sys._getframe(1)
        if frame.f_code.co_name == "__getitem__" and isinstance(key, str):
            with contextlib.suppress(Exception):
                _note(_variables, key, frame)
        return encode(key)

    os.environ.encodekey = encodekey

    def opened(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            with contextlib.suppress(Exception):
                _note_file(*arguments)

    sys.addaudithook(opened)


def reads_of(import_lines: Collection[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the variables and the files that a backend's code has read so far.

    `import_lines` are the backend's. Without any, the script defines it: the code counts that torch has called.
    """
    packages = {line.split()[1].partition(".")[0] for line in import_lines} or {SCRIPT}
    variables, files = (
        tuple(name for name, readers in reads.items() if not packages.isdisjoint(readers))
        for reads in (_variables, _files)
    )
    variables = tuple(filter(str.isidentifier, variables))
    return variables[:_MAX_NAMED], tuple(file for file in files if os.path.isfile(file))[:_MAX_NAMED]


def _note_file(path: Any, _mode: Any, flags: int) -> None:
    if isinstance(path, int) or flags & _WRITES:
        return
    name = os.path.normpath(os.fsdecode(path))
    frame: FrameType | None = sys._getframe(2)
    if (
        name.startswith((*_OF_SYSTEM, os.pardir))
        or name.endswith(_CODE)
        or frame is None
        or _top(frame) in _READERS_OF_CODE
    ):
        return
    _note(_files, name, frame)


def _note(reads: dict[str, set[str]], name: str, frame: FrameType) -> None:
    if (name in reads or len(reads) < _MAX_READS) and (readers := _readers(frame)):
        reads.setdefault(name, set()).update(readers)


def _readers(innermost: FrameType) -> set[str]:
    """Return the packages whose code reads: those on the stack up to torch's code.

    None if torch itself reads. The script counts only within a call of torch: outside, all runs in the script.
    """
    readers: set[str] = set()
    frame: FrameType | None = innermost
    for _ in range(_MAX_FRAMES):
        if frame is None:
            break
        top = _top(frame)
        if top == "torch":
            return readers
        if top == SCRIPT or top not in sys.stdlib_module_names:
            readers.add(top)
        frame = frame.f_back
    return readers - {SCRIPT, "minifier"}


def _top(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]
