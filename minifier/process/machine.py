"""The machine: its memory and cores, limits on memory, and failures that are the machine's fault."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import re
import resource
import sys
import traceback
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

import psutil

from minifier.errors import FolderRemoved, LimitReached, MachineFailed
from minifier.process.child import Child
from minifier.process.descendants import data_bytes, private_bytes, tree

_BYTES_BEYOND_LIMIT = 512 * 2**20  # that saving a failure may take once the limit is met
# Fractions of initially free memory: poll faster, cap the process, kill it.
_POLL_FASTER_AT, _CAP_AT, _KILL_AT = 0.4, 0.8, 0.93
_FAST_POLL_SECONDS = 0.02
_STACK_SECONDS = 0.2  # that a child has to write its stack while it takes ever more memory
CONTROL_GROUPS = Path("/sys/fs/cgroup")
_CACHES = ("active_file", "inactive_file")  # files in memory, which the kernel gives up before it kills


def _limits(name: str) -> Iterator[tuple[Path, str]]:
    """Yield this process's control group and the groups around it, each with the text of its file of this name."""
    with contextlib.suppress(OSError, StopIteration):  # without control groups, or with those of old kernels
        lines = Path("/proc/self/cgroup").read_text().splitlines()
        own = next(line.removeprefix("0::/") for line in lines if line.startswith("0::/"))
        for group in (own, *map(str, Path(own).parents)):
            with contextlib.suppress(FileNotFoundError):  # the root group has no limits
                yield CONTROL_GROUPS / group, (CONTROL_GROUPS / group / name).read_text().strip()


def available() -> int:
    """Return the bytes that this process can still have, in a container too."""
    free = int(psutil.virtual_memory().available)
    for group, limit in _limits("memory.max"):
        if limit.isdigit():
            kinds = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
            used = int((group / "memory.current").read_text()) - sum(int(kinds[name]) for name in _CACHES)
            free = min(free, max(0, int(limit) - used))
    return free


def cores() -> int:
    """Return how many cores this process may use, in a container too."""
    shares = [limit.split() for _, limit in _limits("cpu.max")]
    allowed = [max(1, int(share) // int(period)) for share, period in shares if share.isdigit()]
    return min([len(os.sched_getaffinity(0)), *allowed])


_FILES_OF_A_SCRIPT = 4  # its standard streams, and the listing itself
_MORE_FRAMES = 20  # calls of C functions, and those between the measurement and the user's code


def own_frames() -> int:
    """Return how many frames of the recursion limit this process's callers take, or a few more.

    What fails at the limit with this many added fails in a script of its own too, where the code has fewer frames."""
    return sum(1 for _ in traceback.walk_stack(sys._getframe())) + _MORE_FRAMES


def lift_limits() -> None:
    """Add this tool's own frames and open files to the limits of this process, in which the user's code begins."""
    sys.setrecursionlimit(sys.getrecursionlimit() + own_frames())
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError):  # not one more file is left
        more = soft + max(0, len(os.listdir("/proc/self/fd")) - _FILES_OF_A_SCRIPT)
        if resource.RLIM_INFINITY not in (soft, hard):
            resource.setrlimit(resource.RLIMIT_NOFILE, (min(more, hard), hard))


def free_memory(share: float) -> int | None:
    """Return this share of the free memory, in bytes; None with CUDA, which maps far more than there is memory."""
    import torch

    return None if torch.version.cuda is not None else int(available() * share)


def limit_data(beyond: int) -> None:
    """Limit this process to `beyond` bytes more than are reserved now; a further allocation fails.

    The limit counts private writable memory (heap, anonymous maps, stacks), and no mapped files, unlike a limit on
    address space. Each child inherits the limit for itself. Only the soft limit is set, and never raised.
    """
    held = data_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    known = [limit for limit in (soft, hard) if limit != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_DATA, (min([held + beyond, *known]), hard))


@contextlib.contextmanager
def spare_memory() -> Iterator[None]:
    """Raise the memory limit within the block, so that a failure at the limit can be saved."""
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if soft == resource.RLIM_INFINITY:
        yield
        return
    more = soft + _BYTES_BEYOND_LIMIT
    resource.setrlimit(resource.RLIMIT_DATA, (more if hard == resource.RLIM_INFINITY else min(more, hard), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


class MemoryWatch:
    """Looks at the memory of children and their descendants for `supervise`, so that the machine survives them.

    A limit of the kernel counts reserved memory too, and a compiler may reserve much that it does not use. So the
    processes have no limit until they use most of the memory that was free at first. Then each gets its present size as
    its limit, so that its next allocation fails. If they go on to use what they have reserved, the supervised children
    are stopped.

    `beside` are further children, which take memory and are supervised elsewhere.
    """

    def __init__(self, beside: Collection[Child] = ()) -> None:
        self._beside = beside
        self._free = available()
        self._own = private_bytes(os.getpid())
        self._inherited: dict[int, int] = {}
        self._limited: set[int] = set()

    @property
    def has_capped(self) -> bool:
        """Whether a process was capped at its size, so that its next allocation fails."""
        return bool(self._limited)

    def __call__(self, running: Sequence[Child]) -> float | None:
        """Check the children; return the seconds until the next check, or None if there is no hurry."""
        if not self._free:
            return None
        pids = [pid for child in {*running, *self._beside} for pid in tree(child.pid)]
        taken = sum(map(self._taken, pids))
        if taken < _POLL_FASTER_AT * self._free:
            return None
        # `taken` counts twice what a fork of the script shares with the script; free memory does not.
        left = available()
        if taken > _CAP_AT * self._free and left < 2 * (1 - _CAP_AT) * self._free:
            for pid in set(pids) - self._limited:
                self._limited.add(pid)
                _no_more(pid)
            if taken > _KILL_AT * self._free and left < 2 * (1 - _KILL_AT) * self._free:
                for child in running:
                    if not child.is_stopped:
                        child.exhausted = taken
                        child.stop(_STACK_SECONDS)
        return _FAST_POLL_SECONDS

    def _taken(self, pid: int) -> int:
        """Return the bytes that the process has taken itself: a fork shares the memory of this process at first."""
        held = private_bytes(pid)
        return max(0, held - self._inherited.setdefault(pid, min(held, self._own)))


def _no_more(pid: int) -> None:
    """Cap the process at its present size: its next allocation fails."""
    with contextlib.suppress(ProcessLookupError, PermissionError):  # it has ended, or is somebody else's
        soft, hard = resource.prlimit(pid, resource.RLIMIT_DATA)
        has = data_bytes(pid)
        if has and (soft == resource.RLIM_INFINITY or has < soft):
            resource.prlimit(pid, resource.RLIMIT_DATA, (has, hard))


_MADV_COLLAPSE = 25  # Linux 6.1
_PAGE_BYTES = 2**21
_PRIVATE_MAP = re.compile(r"([0-9a-f]+)-([0-9a-f]+) rw.p \S+ \S+ 0 +(\[heap\])?\n")


def collapse(tick: Callable[[], object] = lambda: None) -> int:
    """Ask the kernel to move this process's private memory to huge pages; return how many were made.

    A fork copies the page table of all written memory: 65,000 entries for 256 MiB of small pages, 128 for huge ones. A
    kernel without this call, or without a free huge page, changes nothing. `tick` is called before each page.
    """
    advise = ctypes.CDLL(None, use_errno=True).madvise
    advise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    made = 0
    try:
        maps = Path("/proc/self/maps").read_text()
    except OSError:
        return 0
    for found in _PRIVATE_MAP.finditer(maps):
        first, end = (int(part, 16) for part in found.group(1, 2))
        for start in range(-(-first // _PAGE_BYTES) * _PAGE_BYTES, end - _PAGE_BYTES + 1, _PAGE_BYTES):
            tick()
            made += advise(start, _PAGE_BYTES, _MADV_COLLAPSE) == 0
    return made


_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EFBIG)  # errors of a disk that takes no more
_SCARCE = (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE)


def machine_failure(error: BaseException) -> MachineFailed | None:
    """Return the error as the machine's, with what to do about it; None if it may be this tool's."""
    if isinstance(error, MemoryError):
        return LimitReached("there is no more memory")
    if not isinstance(error, OSError):
        return None
    if error.errno in _FULL:
        return MachineFailed(f"a file cannot be written to: {error}")
    if error.errno in _SCARCE:
        return LimitReached(f"the system gives no more: {error}")
    if isinstance(error, FileNotFoundError):
        # safetensors names the file in its message only
        folder = os.path.dirname(error.filename if isinstance(error.filename, str) else str(error).rpartition(": ")[2])
        if os.path.isabs(folder) and not os.path.isdir(folder):
            return FolderRemoved(f"{folder} was removed while it was in use")
    return None
