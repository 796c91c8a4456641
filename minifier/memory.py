"""A limit on the memory of a process that runs code of the user's, so that the machine survives it."""

from __future__ import annotations

import contextlib
import resource
from collections.abc import Iterator
from pathlib import Path

_SPARE = 512 * 2**20  # what writing a failure down may take beyond the limit


def available() -> int | None:
    """Bytes that the system could still give out; None where it does not tell."""
    return _field(Path("/proc/meminfo"), "MemAvailable:")


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
    held = _field(Path("/proc/self/status"), "VmData:") or 0
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


def _field(path: Path, name: str) -> int | None:
    try:
        for line in path.read_text().splitlines():
            if line.startswith(name):
                return int(line.split()[1]) * 1024
    except OSError:  # a system without /proc
        return None
    return None
