"""Descendants of processes: what they use, and what becomes of them when their parent ends."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
from collections.abc import Iterable, Iterator
from pathlib import Path

import psutil

_GONE = (psutil.NoSuchProcess, psutil.ZombieProcess, psutil.AccessDenied)


def read_threads(pid: int, name: str) -> dict[str, str]:
    """Return the text of the kernel's file of this name for each thread of a process, by thread id.

    A thread may end at any moment, and the process as well: then it is left out.
    """
    texts = {}
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError):
                texts[thread] = Path(f"/proc/{pid}/task/{thread}/{name}").read_text()
    return texts


def descendants(pid: int) -> list[int]:
    """Return the process ids of all children, grandchildren and so on, whatever session they are in.

    The kernel lists the children of a thread. psutil would read every process of the machine, several times a second.
    """
    found = [int(child) for text in read_threads(pid, "children").values() for child in text.split()]
    return [*found, *(deeper for child in found for deeper in descendants(child))]


def tree(pid: int) -> list[int]:
    """Return the process and all its descendants."""
    return [pid, *descendants(pid)]


def processor_seconds(pids: Iterable[int]) -> float:
    """Return the processor time, in seconds, of these processes and of their children that they waited for."""
    total = 0.0
    for pid in pids:
        with contextlib.suppress(*_GONE):
            times = psutil.Process(pid).cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
    return total


def private_bytes(pid: int) -> int:
    """Return the resident memory of the process that no file backs, in bytes; 0 after its end."""
    with contextlib.suppress(*_GONE):
        memory = psutil.Process(pid).memory_info()
        return int(memory.rss - memory.shared)
    return 0


def data_bytes(pid: int | None = None) -> int:
    """Return the writable private memory that the process has reserved, in bytes; by default of this process."""
    with contextlib.suppress(*_GONE):
        return int(psutil.Process(pid).memory_info().data)
    return 0


_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER, _PR_GET_CHILD_SUBREAPER = 36, 37
_NO_LIMIT_MICROSECONDS = 2**62

_prctl = ctypes.CDLL(None, use_errno=True).prctl


def die_with_parent() -> None:
    """Ask the kernel to kill this process when its parent ends."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


_adopter: int | None = None
_spared: set[int] = set()  # our children that `kill_orphans` never kills


def mark() -> None:
    """Mark this new child, and so all processes that it will start.

    `kill_orphans` kills marked processes alone: in the user's own process, the user's code may start others meanwhile.
    The mark is a hard limit on uninterrupted real-time scheduling that is lower than the parent's. Descendants inherit
    the limit, and it limits nothing: it begins at thousands of years.
    """
    with contextlib.suppress(OSError):
        soft, _ = resource.getrlimit(resource.RLIMIT_RTTIME)
        hard = _real_time_limit(0) - 1
        resource.setrlimit(resource.RLIMIT_RTTIME, (soft if 0 <= soft < hard else hard, hard))


def _real_time_limit(pid: int) -> int:
    _, hard = resource.prlimit(pid, resource.RLIMIT_RTTIME)
    return _NO_LIMIT_MICROSECONDS if hard == resource.RLIM_INFINITY else hard


def adopt_orphans() -> None:
    """From now on, adopt descendants whose parent ends, so that none is lost."""
    global _adopter
    if _adopter == os.getpid():
        return
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    _spared.clear()
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
    """Let `kill_orphans` spare this child, but not the processes that it starts."""
    _spared.add(pid)


def _is_marked(pid: int) -> bool:
    try:
        return _real_time_limit(pid) < _real_time_limit(0)
    except OSError:  # it has ended, or belongs to another user
        return False


def kill_orphans() -> None:
    """Kill the adopted orphans: descendants that a probe left in sessions of their own.

    Repeated, since the death of an orphan brings its children. Does nothing in a process that adopts none.
    """
    if _adopter != os.getpid():
        return
    children = Path(f"/proc/self/task/{os.getpid()}/children")
    for _ in range(20):
        try:
            left = [pid for pid in map(int, children.read_text().split()) if pid not in _spared and _is_marked(pid)]
        except OSError:  # a kernel without that file
            return
        if not left:
            return
        for pid in left:
            with contextlib.suppress(ProcessLookupError, ChildProcessError):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
