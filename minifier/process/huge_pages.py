"""Memory on huge pages, so that forking a process with torch in it costs a few milliseconds less."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path

_COLLAPSE = 25  # MADV_COLLAPSE, of Linux 6.1
_HUGE = 2**21  # bytes
_OURS = re.compile(r"([0-9a-f]+)-([0-9a-f]+) rw.p \S+ \S+ 0 +(\[heap\])?\n")


def collapse() -> int:
    """Has the kernel move this process's own memory to huge pages, and gives how many it made.

    A fork copies the page tables of what the process has written, and the child, at its end, takes them apart: 65,000
    entries for 256 MiB of small pages, 128 for huge ones. A kernel that does not know this, or has no such page
    free, says so, and nothing is changed.
    """
    advise = ctypes.CDLL(None, use_errno=True).madvise
    advise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    made = 0
    try:
        maps = Path("/proc/self/maps").read_text()
    except OSError:
        return 0
    for found in _OURS.finditer(maps):
        first, end = (int(part, 16) for part in found.group(1, 2))
        for start in range(-(-first // _HUGE) * _HUGE, end - _HUGE + 1, _HUGE):
            made += advise(start, _HUGE, _COLLAPSE) == 0
    return made
