"""Open files of this tool's own in processes that run code of the user's, which may close what it finds open, or open
files until there are no numbers left."""

from __future__ import annotations

import contextlib
import fcntl
import os
import resource

_RESERVED = 16
_HIGHEST = 1024  # of the numbers that are taken for this, where more may be had


def out_of_the_way(file: int) -> int:
    """The open file under a high number; the old one is closed. Numbers are given out from the lowest: a script that
    closes what it finds open, or the first so many, does not get this one again for a file of its own."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    number = fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, max(3, min(soft, _HIGHEST) - 40))
    os.close(file)
    return number


class Reserve:
    """Some open files, which make room for others while `with` this: where a script has opened so many that there are
    no numbers left, that can still be written down."""

    def __init__(self) -> None:
        self._held: list[tuple[int, tuple[int, int]]] = []
        self._fill()

    def _fill(self) -> None:
        with contextlib.suppress(OSError):  # there are no more
            while len(self._held) < _RESERVED:
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
    """What tells an open file from another that has got its number; raises OSError if it is closed."""
    found = os.fstat(number)
    return found.st_dev, found.st_ino


_kept: list[int] = []  # open files that this tool talks to its own processes through


def keep_from_scripts(number: int) -> int:
    """Remembers an open file that no process which runs code of the user's is to have."""
    _kept.append(number)
    return number


def let_go(number: int) -> None:
    """Closes it: what gets its number next is not this tool's to close."""
    _kept.remove(number)
    os.close(number)


def close_for_scripts() -> None:
    """In a process that is about to run such code: what a daemon of its holds open would never end."""
    while _kept:
        with contextlib.suppress(OSError):
            os.close(_kept.pop())
