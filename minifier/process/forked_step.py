"""Forked steps: every step of a run that calls the user's code does so in a process of its own."""

from __future__ import annotations

import contextlib
import errno
import importlib
import json
import mmap
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NoReturn

from minifier.errors import MachineFailed, MinifyError, ToolFailed
from minifier.process.child import RAISED, Child, Look, supervise
from minifier.process.interrupts import INTERRUPT_SECONDS, uninterrupted
from minifier.process.stacks import StackFile, calls_user_code

_MAX_ERROR_CHARACTERS = 1 << 14
_MAX_ERROR_BYTES = 16 * _MAX_ERROR_CHARACTERS  # JSON has up to 12 bytes for a character, and a little beside it
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EFBIG)  # errors of a disk that takes no more


@dataclass(frozen=True, slots=True)
class StepEnd:
    """How a step ended: its exit status or fatal signal, and whether Ctrl-C was pressed."""

    status: int | None
    signal: int | None
    interrupted: bool


def run_step(
    work: Callable[[], int],
    tick: Callable[[], object] = lambda: None,
    *,
    meanwhile: Callable[[], object] | None = None,
    looks: Sequence[Look] = (),
    stacks: StackFile | None = None,
    interrupting: Callable[[], object] = lambda: None,
) -> StepEnd:
    """Run `work` in a forked child, and wait for the end. The return value of `work` is the child's exit status.

    This process calls `meanwhile` first, then `tick` and `looks` as `supervise` does. A child that must be stopped is
    asked for its stack in the file `stacks`. Ctrl-C goes to the child; this process calls `interrupting` once, from its
    loop, and waits on.

    An exception of `work` is raised again in this process: a MinifyError with its class and message, MachineFailed for
    a file that cannot be written, and ToolFailed with the traceback for any other, which is this tool's own fault.
    """
    previous = signal.getsignal(signal.SIGINT)
    raised = mmap.mmap(-1, _MAX_ERROR_BYTES)  # not a pipe or a file, which the user's script may close
    interrupted = answered = False

    def forward(number: int, _frame: object) -> None:
        nonlocal interrupted
        # A terminal sends Ctrl-C to the whole group, `kill` to us alone or to the group: a child that
        # ends by itself now has had it, and is not to be interrupted while it ends.
        if not interrupted and os.getpgid(0) != _foreground_group():
            until = time.monotonic() + INTERRUPT_SECONDS
            while time.monotonic() < until and not child.has_ended:
                time.sleep(0.02)
            child.send(number)
        interrupted = True

    def answer() -> None:
        nonlocal answered
        if interrupted and not answered:
            answered = True
            interrupting()

    def answer_and_tick() -> None:
        answer()
        tick()

    with uninterrupted() as mask:
        child = Child.forked(lambda: _work_and_exit(work, raised, mask), stacks=stacks)
        signal.signal(signal.SIGINT, forward)
    try:
        if meanwhile is not None:
            meanwhile()
        supervise([child], answer_and_tick, looks)
        answer()
    finally:
        child.kill()
        signal.signal(signal.SIGINT, previous)
    error = _error_in(raised)
    raised.close()
    if error is not None:
        raise error
    return StepEnd(child.status, child.signal, interrupted)


@calls_user_code
def _work_and_exit(work: Callable[[], int], raised: mmap.mmap, mask: set[int | signal.Signals]) -> NoReturn:
    """Run `work` in the child, and exit with the returned status; an exception goes into `raised`."""
    status = RAISED
    try:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        status = work()
    except BaseException as error:  # noqa: BLE001 - the process ends here; the parent raises it again
        raised.write(_serialised(error))
    finally:
        for stream in (sys.stdout, sys.stderr):  # which the script may have closed or replaced
            with contextlib.suppress(OSError, ValueError, AttributeError):
                stream.flush()
        os._exit(status)


def _serialised(error: BaseException) -> bytes:
    """Serialise the class of an exception with the beginning of its message, or the end of its traceback."""
    kind, message = type(error), str(error)[:_MAX_ERROR_CHARACTERS]
    if isinstance(error, OSError) and error.errno in FULL:
        kind, message = MachineFailed, f"a file cannot be written to: {error}"
    elif not isinstance(error, MinifyError):
        kind, message = ToolFailed, traceback.format_exc()[-_MAX_ERROR_CHARACTERS:]
    message = message.encode(errors="backslashreplace").decode()  # of lone surrogates no file can be made
    return json.dumps([kind.__module__, kind.__qualname__, message]).encode()


def _error_in(raised: mmap.mmap) -> MinifyError | None:
    """Return the exception that the child serialised, or None."""
    data = raised[:].rstrip(b"\0")
    if not data:
        return None
    module, name, message = json.loads(data)
    error: MinifyError = getattr(importlib.import_module(module), name)(message)
    return error


def _foreground_group() -> int:
    """Return the process group that the terminal sends Ctrl-C to, or -1 without a terminal."""
    try:
        with open("/dev/tty") as terminal:
            return os.tcgetpgrp(terminal.fileno())
    except OSError:
        return -1
