"""The folder in which `minifier.capture` keeps what it sees, and which a process that dies leaves behind."""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path

from minifier.case.store import CASE

UNFINISHED = "unfinished"
STATUS = "status"
SOURCE = "script.py"


def is_unfinished(out: Path) -> bool:
    """Whether a capture into this folder began, and has neither ended nor been taken up."""
    return (out / UNFINISHED / STATUS).exists() and not (out / "case" / CASE).exists()


def hold(left: Path) -> int:
    """Has nobody take this for what a dead process left, as long as the file descriptor that it gives is open."""
    file = os.open(left / STATUS, os.O_RDONLY | os.O_CLOEXEC)
    with contextlib.suppress(OSError):  # a file system without locks
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    return file


def is_held(left: Path) -> bool:
    """Whether the process that keeps things there is still at it."""
    file = os.open(left / STATUS, os.O_RDONLY)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # a file system without locks
        return False
    finally:
        os.close(file)
    return False
