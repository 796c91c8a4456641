"""Processes whose parent ends: they die as well, or this process adopts and kills them."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
from collections.abc import Iterator
from pathlib import Path

from minifier.process.usage import descendants

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER, _PR_GET_CHILD_SUBREAPER = 36, 37

_prctl = ctypes.CDLL(None, use_errno=True).prctl


def die_with_parent() -> None:
    """Ask the kernel to kill this process when its parent ends."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


_adopter: int | None = None
_spared: set[int] = set()  # our descendants that `kill_orphans` never kills


def adopt_orphans() -> None:
    """From now on, adopt descendants whose parent ends, so that none is lost. `kill_orphans` spares present ones."""
    global _adopter
    if _adopter == os.getpid():
        return
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    _spared.clear()
    _spared.update(descendants(os.getpid()))
    _adopter = os.getpid()


@contextlib.contextmanager
def orphans_adopted() -> Iterator[None]:
    """Adopt orphans as `adopt_orphans` does, until the end of the block."""
    global _adopter
    before = ctypes.c_int()
    _prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(before))
    adopt_orphans()
    try:
        yield
    finally:
        _prctl(_PR_SET_CHILD_SUBREAPER, before.value)
        _adopter = None
        _spared.clear()


def spare(pid: int) -> None:
    """Let `kill_orphans` spare this child."""
    _spared.add(pid)


def kill_orphans() -> None:
    """Kill the adopted orphans: descendants that a probe left in sessions of their own.

    Repeated, since the death of an orphan brings its children. Does nothing in a process that adopts none.
    """
    if _adopter != os.getpid():
        return
    children = Path(f"/proc/self/task/{os.getpid()}/children")
    for _ in range(20):
        try:
            left = [int(pid) for pid in children.read_text().split() if int(pid) not in _spared]
        except OSError:  # a kernel without that file
            return
        if not left:
            return
        for pid in left:
            with contextlib.suppress(ProcessLookupError, ChildProcessError):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
