"""Room for sources that are nested deeply, by a long chain of calls say: libcst visits them by recursion."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

_MAX_FRAMES = 10_000  # a chain of 1,000 calls
ORDINARY_FRAMES = sys.getrecursionlimit()  # as a script has it


@contextlib.contextmanager
def deep_sources() -> Iterator[None]:
    """Allow deep recursion in the block. A process that runs a script in it has to set `ORDINARY_FRAMES`."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, _MAX_FRAMES))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)
