"""Locks on files, to tell a running process from a dead process."""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path

from minifier.process.descriptors import identity, out_of_the_way

_held: dict[int, tuple[int, int]] = {}  # descriptors of locked files, with the identity of each


def hold(path: Path) -> int:
    """Lock the file until this process ends or calls `release` with the returned descriptor.

    Several processes may hold the same lock. Forks of this process, and programs started by it, do not
    hold the lock.
    """
    number = out_of_the_way(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
    _held[number] = identity(number)
    with contextlib.suppress(OSError):  # a file system without locks
        fcntl.flock(number, fcntl.LOCK_SH | fcntl.LOCK_NB)
    return number


def release(number: int) -> None:
    """Release a lock by closing its file, unless somebody has closed the file already."""
    held = _held.pop(number)
    with contextlib.suppress(OSError):
        if identity(number) == held:
            os.close(number)


def is_held(path: Path) -> bool:
    """Whether a running process, possibly this process, holds the lock of the file."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # a file system without locks
        return False
    finally:
        os.close(file)
    return False


def _release_in_fork() -> None:
    for number in list(_held):
        release(number)


os.register_at_fork(after_in_child=_release_in_fork)
