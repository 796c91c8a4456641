"""Files that the tool keeps open in processes that run the user's code.

That code may close every file it finds open, or open files until there are no descriptors left.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import resource

_RESERVED_FILES = 16
_MAX_DESCRIPTOR = 1024  # that is used, even where the limit is higher


def out_of_the_way(file: int) -> int:
    """Move an open file to a high descriptor, and return that.

    The system assigns the lowest free descriptor. A script that closes all low ones does not get this one for a file
    of its own.
    """
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    number = fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, max(3, min(soft, _MAX_DESCRIPTOR) - 40))
    os.close(file)
    return number


class Reserve:
    """Open files that make room for others within `with`, so that a script that ran out of descriptors can be saved."""

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
    """Return (device, inode), by which the file is told from a later one with its descriptor.

    Raises OSError if the descriptor is closed.
    """
    status = os.fstat(number)
    return status.st_dev, status.st_ino


_hidden: list[int] = []  # descriptors of pipes to the tool's own processes


def keep_from_scripts(number: int) -> int:
    """Note a descriptor that no process with the user's code may have, and return it."""
    _hidden.append(number)
    return number


def let_go(number: int) -> None:
    """Close the descriptor, and forget it: its number may become the user's."""
    _hidden.remove(number)
    os.close(number)


def close_for_scripts() -> None:
    """Close the noted descriptors, in a process that is about to run the user's code.

    A daemon started by that code would hold the pipes open for ever.
    """
    while _hidden:
        with contextlib.suppress(OSError):
            os.close(_hidden.pop())
