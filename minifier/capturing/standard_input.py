"""Standard input for a script that is run more than once: each run reads what the first one read."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from pathlib import Path
from typing import Any

_MOST = 2**30  # bytes that are kept


class StandardInput:
    """What this process was given. A file is wound back for each run. Of a pipe what the script reads by way of
    `sys.stdin` is kept in the file `copy`, from which later runs read: nothing is taken from the pipe that the script
    has not asked for. A terminal stays as it is."""

    def __init__(self, copy: Path) -> None:
        self._copy = copy.absolute()
        self._begin: int | None = None
        self._is_pipe = False
        if sys.stdin is None or os.isatty(0):
            return
        try:
            self._begin = os.lseek(0, 0, os.SEEK_CUR)
        except OSError:
            self._is_pipe = True

    def set_up(self) -> None:
        """Called in the process that is about to run the script."""
        if self._begin is not None:
            os.lseek(0, self._begin, os.SEEK_SET)
        elif self._is_pipe and self._copy.exists():
            file = os.open(self._copy, os.O_RDONLY)
            os.dup2(file, 0)
            os.close(file)
        elif self._is_pipe and sys.stdin is not None:
            self._copy.touch(mode=0o600)
            before = sys.stdin
            text = io.TextIOWrapper(io.BufferedReader(_Copying(self._copy)), before.encoding, before.errors)
            text.mode = getattr(before, "mode", "r")  # type: ignore[misc]
            sys.stdin = sys.__stdin__ = text  # type: ignore[misc]


class _Copying(io.FileIO):
    """Standard input itself; what is read from it is written down."""

    def __init__(self, copy: Path) -> None:
        super().__init__(0, "rb", closefd=False)
        self.name = "<stdin>"
        self._copy, self._left = copy, _MOST

    def readinto(self, buffer: Any, /) -> int:
        count: int = super().readinto(buffer)
        if count:
            self._keep(bytes(memoryview(buffer).cast("B")[:count]))
        return count

    def readall(self) -> bytes:
        data = super().readall()
        self._keep(data)
        return data

    def _keep(self, data: bytes) -> None:
        self._left -= len(data)
        if self._left >= 0:
            # The script goes on whatever becomes of the copy, and may have closed every file it found.
            with contextlib.suppress(OSError), self._copy.open("ab") as file:
                file.write(data)
