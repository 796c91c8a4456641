"""Ctrl-C in the tool's own processes: delayed, ignored, or taken once."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Iterator

INTERRUPT_SECONDS = 1.0  # that a child has to end by itself after Ctrl-C


@contextlib.contextmanager
def uninterrupted() -> Iterator[set[int | signal.Signals]]:
    """Delay a Ctrl-C until the end of the block; the value is the signal mask to return to.

    A process forked within the block has to set that mask itself.
    """
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield mask
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


@contextlib.contextmanager
def interrupted_afterwards() -> Iterator[None]:
    """Delay a Ctrl-C within the block: raise KeyboardInterrupt at its end.

    An interrupted import may swallow the exception and leave half a module. Only the main thread gets signals; in other
    threads this changes nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    pressed = False

    def handle(_number: int, _frame: object) -> None:
        nonlocal pressed
        pressed = True

    before = signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if pressed:
        raise KeyboardInterrupt


def interrupt_once() -> None:
    """Ignore a second SIGINT within seconds of the first.

    A Ctrl-C may arrive twice, directly and through the process group. The second would interrupt the saving.
    """
    last = float("-inf")

    def handle(_number: int, _frame: object) -> None:
        nonlocal last
        before, last = last, time.monotonic()
        if last - before > 3 * INTERRUPT_SECONDS:
            raise KeyboardInterrupt

    signal.signal(signal.SIGINT, handle)


@contextlib.contextmanager
def deaf() -> Iterator[None]:
    """Ignore Ctrl-C during a short clean-up."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
