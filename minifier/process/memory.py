"""What the machine has to give, and a limit on the memory of a process that runs code of the user's, so that the
machine survives it."""

from __future__ import annotations

import contextlib
import os
import resource
from collections.abc import Iterator, Sequence
from pathlib import Path

from minifier.process.usage import resident_bytes, status_bytes

_SPARE = 512 * 2**20  # what writing a failure down may take beyond the limit
# Of what was free: where to look more often, where no more is given, where what takes it has to be killed.
_NOTEWORTHY, _MOST, _ALL = 0.4, 0.8, 0.93
_SOON = 0.02  # seconds between two looks then


def available() -> int | None:
    """Bytes that the system could still give out; None where it does not tell."""
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:  # a system without /proc
        return None
    return None


_GROUP = Path("/sys/fs/cgroup")  # of this process, in a container


def room() -> int | None:
    """`available`, or less where the group of processes that this one is in may not have that much."""
    free = available()
    try:
        most, has = ((_GROUP / name).read_text().strip() for name in ("memory.max", "memory.current"))
    except OSError:  # not in a container, or an older kernel's
        return free
    return free if not most.isdigit() else min(free or 0, max(0, int(most) - int(has)))


def cores() -> int:
    """How many cores this process may use, in a container too."""
    count = len(os.sched_getaffinity(0))
    try:
        share, _, period = (_GROUP / "cpu.max").read_text().partition(" ")
    except OSError:
        return count
    return min(count, max(1, int(share) // int(period))) if share.isdigit() else count


def free_memory(share: float) -> int | None:
    """This share of the memory that is free, in bytes; None where the system does not tell, and with CUDA,
    which maps far more than there is memory."""
    import torch

    if torch.version.cuda is not None:
        return None
    free = available()
    return int(free * share) if free is not None else None


def limit_data(beyond: int) -> None:
    """From now on this process gets at most so many bytes beyond what it has: beyond that an allocation fails.

    Counted is what is private and writable (heap, anonymous maps, stacks), not files that are mapped: a limit
    on address space would count those. Children inherit the limit, each for itself. Only the soft limit is
    set, and never raised.
    """
    held = status_bytes("self", "VmData:")
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    known = [limit for limit in (soft, hard) if limit != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_DATA, (min([held + beyond, *known]), hard))


@contextlib.contextmanager
def spare_memory() -> Iterator[None]:
    """Some room above the limit, for writing down that the limit was met."""
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if soft == resource.RLIM_INFINITY:
        yield
        return
    more = soft + _SPARE
    resource.setrlimit(resource.RLIMIT_DATA, (more if hard == resource.RLIM_INFINITY else min(more, hard), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


class MemoryWatch:
    """Looks after processes that may reserve what they like, so that the machine survives what they use.

    A limit on what a process may have counts what it only reserves, and a compiler that reserves a large arena has done
    nothing wrong. So they run without one until they hold most of the memory that was free when this was made. Only
    then each may have what it has and no more, and the next allocation fails, as under a limit. `exhausted` says that
    this did not help: they use up what they had reserved.
    """

    def __init__(self) -> None:
        self._free = available() or 0
        self._limited: set[int] = set()
        self.taken = 0
        self.exhausted = False

    def look(self, pids: Sequence[int]) -> float | None:
        """Looks at these processes; gives the seconds after which that should be done again, if it is soon."""
        if not self._free:
            return None
        self.taken = sum(map(resident_bytes, pids))
        if self.taken < _NOTEWORTHY * self._free:
            return None
        # Memory that a forked process shares with its parent is counted twice; what is free is not.
        left = available() or 0
        if self.taken > _MOST * self._free and left < 2 * (1 - _MOST) * self._free:
            for pid in set(pids) - self._limited:
                self._limited.add(pid)
                _no_more(pid)
            self.exhausted = self.taken > _ALL * self._free and left < 2 * (1 - _ALL) * self._free
        return _SOON


def _no_more(pid: int) -> None:
    """From now on an allocation of this process fails."""
    with contextlib.suppress(ProcessLookupError, PermissionError):  # it has ended, or is somebody else's
        soft, hard = resource.prlimit(pid, resource.RLIMIT_DATA)
        has = status_bytes(pid, "VmData:")
        if has and (soft == resource.RLIM_INFINITY or has < soft):
            resource.prlimit(pid, resource.RLIMIT_DATA, (has, hard))
