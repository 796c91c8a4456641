"""What running processes take: time of the processor and memory, read from /proc."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_KINDS = ("RssAnon:", "VmSwap:")  # what a process alone has; mapped files and shared memory are not its own


def descendants(pid: int) -> list[int]:
    """The processes that this one has started, and those that they have, whatever session they are in."""
    found = []
    for thread in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):  # it has ended
            found += [int(child) for child in thread.read_text().split()]
    return [*found, *(deeper for child in found for deeper in descendants(child))]


def processor_seconds(pids: Iterable[int]) -> float:
    """Seconds of processor time that the processes have used, and those which they started and saw end."""
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            total += sum(map(int, fields[11:15]))  # utime, stime, cutime, cstime
    return total / _TICKS


def resident_bytes(pid: int) -> int:
    """What the process holds in memory, or in swap, that is no file's; 0 if it has ended."""
    return sum(status_bytes(pid, kind) for kind in _KINDS)


def status_bytes(pid: int | str, name: str) -> int:
    """A line of /proc/PID/status, in bytes; 0 if there is none."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith(name):
                return int(line.split()[1]) * 1024
    return 0
