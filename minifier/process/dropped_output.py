"""Drop what a script prints when it runs again. A script that has a terminal gets another one of the same size."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import subprocess
import termios
from collections.abc import Callable, Iterator

from minifier.process.child import Child

_STREAMS = (1, 2)
_SIZE_BYTES = 8  # of `struct winsize`


@contextlib.contextmanager
def output_dropped(is_wanted: bool) -> Iterator[Callable[[], None]]:
    """Yield a function for a forked child: if wanted, the child's output is dropped from its call on.

    That lasts until the end of the block.
    """
    terminal = next(filter(os.isatty, _STREAMS), None)
    if not is_wanted or terminal is None:
        yield functools.partial(_redirect, None) if is_wanted else lambda: None
        return
    ours, theirs = os.openpty()
    size = fcntl.ioctl(terminal, termios.TIOCGWINSZ, bytes(_SIZE_BYTES))
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, size)
    reader = Child.launched(["cat"], stdin=ours, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    os.close(ours)
    try:
        yield functools.partial(_redirect, theirs)
    finally:
        os.close(theirs)
        reader.kill()


def _redirect(terminal: int | None) -> None:
    """Let standard output and standard error end in this terminal if they are one, else in the null device."""
    null = os.open(os.devnull, os.O_WRONLY)
    for stream in _STREAMS:
        os.dup2(terminal if terminal is not None and os.isatty(stream) else null, stream)
    os.close(null)
    if terminal is not None:
        os.close(terminal)
