"""Files that the tool keeps open in processes that run the user's code.

The user's code may close every open file, or open files until no descriptors are left.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import resource

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
