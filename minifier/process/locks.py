"""Locks on files, to tell a running process from a dead process."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from pathlib import Path

from minifier.process.descriptors import identity, out_of_the_way

_POLL_SECONDS = 0.05
_held: dict[int, tuple[int, int]] = {}  # descriptors of locked files, with the identity of each


def hold(path: Path) -> int:
    """Lock the file until this process ends or calls `release` with the returned descriptor.

    Several processes may hold the same lock. Forks of this process, and programs started by it, do not
    hold the lock.
    """
    number = out_of_the_way(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
    _held[number] = identity(number)
    _lock(number, fcntl.LOCK_SH)
    return number


def lock_alone(file: int, seconds: float) -> bool:
    """Lock an open file, which no other process may hold, for this process and its forks.

    Return False if another process holds the lock for so many seconds.
    """
    until = time.monotonic() + seconds
    while _lock(file, fcntl.LOCK_EX) is False:
        if time.monotonic() > until:
            return False
        time.sleep(_POLL_SECONDS)
    return True


def release(number: int) -> None:
    """Release a lock by closing its file, unless somebody has closed the file already."""
    held = _held.pop(number)
    with contextlib.suppress(OSError):
        if identity(number) == held:
            os.close(number)


def is_held(path: Path) -> bool:
    """Whether a running process, possibly this process, holds the lock of the file."""
    return _try_lock(path) is False


def is_free(path: Path) -> bool:
    """Whether nobody holds the lock of the file; False on a file system without locks, where nobody can tell."""
    return _try_lock(path) is True


def _try_lock(path: Path) -> bool | None:
    """Return whether the file can be locked; None if it is missing, or on a file system without locks."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return _lock(file, fcntl.LOCK_EX)
    finally:
        os.close(file)


def _lock(file: int, kind: int) -> bool | None:
    """Return whether the open file was locked; None on a file system without locks."""
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _release_in_fork() -> None:
    for number in list(_held):
        release(number)


os.register_at_fork(after_in_child=_release_in_fork)
