"""Ctrl-C in the tool's own processes, delayed, ignored, or taken once; Ctrl-Z; and signals that end the tool."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType

ENDING = (signal.SIGTERM, signal.SIGHUP)  # they end the tool
INTERRUPTING = {signal.SIGINT, *ENDING}
INTERRUPT_SECONDS = 1.0  # that a child has to end by itself after Ctrl-C


@contextlib.contextmanager
def uninterrupted() -> Iterator[set[int | signal.Signals]]:
    """Delay `INTERRUPTING` signals until the end of the block; the value is the signal mask to return to.

    A process forked within the block has to set that mask itself.
    """
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, INTERRUPTING)
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


def interrupts_left_to_another(is_left: Callable[[], bool]) -> Callable[[], None]:
    """Ignore Ctrl-C while `is_left()`, which another process then acts upon; return a function that ends this.

    Does nothing in a thread that gets no signals, and where the program has a handler of its own.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        return lambda: None

    def handle(number: int, frame: FrameType | None) -> None:
        if not is_left():
            signal.default_int_handler(number, frame)

    def end() -> None:
        if signal.getsignal(signal.SIGINT) is handle:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    signal.signal(signal.SIGINT, handle)
    return end


@contextlib.contextmanager
def deaf() -> Iterator[None]:
    """Ignore Ctrl-C during a short clean-up; not if the handler is none of Python's, which could not be set again."""
    before = signal.getsignal(signal.SIGINT)
    if before is not None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        if before is not None:
            signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def before_stops(prepare: Callable[[], object]) -> Iterator[None]:
    """On Ctrl-Z within the block, call `prepare` before the process stops. If SIGTSTP is ignored, it stays ignored."""

    def handle(number: int, _frame: object) -> None:
        prepare()
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)  # the process stops here, until it is continued
        signal.signal(number, handle)

    before = signal.getsignal(signal.SIGTSTP)
    if before is not signal.SIG_IGN:
        signal.signal(signal.SIGTSTP, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGTSTP, before)


_exit_status: int | None = None  # that a signal asked for


def end_by_signals() -> None:
    """From now on, `ENDING` signals raise SystemExit here. A signal that is ignored, as under nohup, stays ignored."""

    def handle(number: int, _frame: object) -> None:
        global _exit_status
        _exit_status = 128 + number
        sys.exit(_exit_status)

    for number in ENDING:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handle)


def end_if_asked() -> None:
    """Raise SystemExit if a signal has asked for it: Python ignores exceptions in finalizers and hooks of fork."""
    if _exit_status is not None:
        sys.exit(_exit_status)


def _forget_in_fork() -> None:
    global _exit_status
    _exit_status = None


os.register_at_fork(after_in_child=_forget_in_fork)
