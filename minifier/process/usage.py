"""Descendants of running processes, and the processor time and memory that they use."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
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
