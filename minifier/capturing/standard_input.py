"""Standard input for several runs of a script: each run reads the first run's input."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from pathlib import Path
from typing import Any

_MAX_STDIN_BYTES = 2**30  # that are copied


class StandardInput:
    """This process's standard input, for several runs. A terminal stays unchanged, a file is rewound for each run.

    From a pipe the first run copies its reads of `sys.stdin` to the file `copy`, and later runs read that file. Nothing
    is read from the pipe before the script reads.
    """

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
        """Prepare standard input in the process that is about to run the script."""
        if self._begin is not None:
            os.lseek(0, self._begin, os.SEEK_SET)
        elif self._is_pipe and self._copy.exists():
            file = os.open(self._copy, os.O_RDONLY)
            os.dup2(file, 0)
            os.close(file)
        elif self._is_pipe and sys.stdin is not None:
            self._copy.touch(mode=0o600)
            original = sys.stdin
            text = io.TextIOWrapper(io.BufferedReader(_Copying(self._copy)), original.encoding, original.errors)
            text.mode = getattr(original, "mode", "r")  # type: ignore[misc]
            sys.stdin = sys.__stdin__ = text  # type: ignore[misc]


class _Copying(io.FileIO):
    """Standard input that appends the bytes read to a copy, up to `_MAX_STDIN_BYTES`."""

    def __init__(self, copy: Path) -> None:
        super().__init__(0, "rb", closefd=False)
        self.name = "<stdin>"
        self._copy, self._remaining_bytes = copy, _MAX_STDIN_BYTES

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
        self._remaining_bytes -= len(data)
        if self._remaining_bytes >= 0:
            # A failing copy must not stop the script, which may also close all descriptors.
            with contextlib.suppress(OSError), self._copy.open("ab") as file:
                file.write(data)
