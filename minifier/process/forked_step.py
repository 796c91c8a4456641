"""Forked steps: a step of a run that calls the user's code does so in its own process, and passes errors on."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import importlib
import json
import math
import mmap
import operator
import os
import signal
import subprocess
import sys
import termios
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NoReturn

from minifier.errors import MinifyError, ToolFailed
from minifier.process.child import RAISED, Child, Look, supervise
from minifier.process.descriptors import StackFile, calls_user_code
from minifier.process.interrupts import INTERRUPT_SECONDS, uninterrupted
from minifier.process.machine import machine_failure

_SAME_PRESS_SECONDS = 0.3  # one Ctrl-C may arrive twice, directly and through the process group


@dataclass(frozen=True, slots=True)
class StepEnd:
    """How a step ended: its exit status or fatal signal, whether Ctrl-C was pressed once, and again, or time was up."""

    status: int | None
    signal: int | None
    interrupted: bool
    interrupted_again: bool = False
    timed_out: bool = False

    @property
    def described(self) -> str:
        """The exit status or the signal, in words."""
        return f"signal {self.signal}" if self.signal is not None else f"exit status {self.status}"


def run_step(
    work: Callable[[], int],
    tick: Callable[[], object] = lambda: None,
    *,
    meanwhile: Callable[[], object] | None = None,
    looks: Sequence[Look] = (),
    stacks: StackFile | None = None,
    interrupting: Callable[[], bool | None] = lambda: None,
    seconds: float = math.inf,
    now: Callable[[], float] = time.monotonic,
) -> StepEnd:
    """Run `work` in a forked child, and wait for the end. The return value of `work` is the child's exit status.

    This process calls `meanwhile` first, then `tick` and `looks` as `supervise` does. A child that must be stopped is
    asked for its stack in the file `stacks`. Ctrl-C goes to the child; this process calls `interrupting` once, from its
    loop, and waits on. If that returns True, it was no interrupt, and the next Ctrl-C is the first. After a second one
    the child has `INTERRUPT_SECONDS` left. It is stopped after so many `seconds`; `now` is the clock, in seconds.

    An exception of `work` is raised again in this process: a MinifyError with its class and message, MachineFailed for
    a file that cannot be written, and ToolFailed with the traceback for any other, which is this tool's own fault.
    """
    previous = signal.getsignal(signal.SIGINT)
    raised = mmap.mmap(-1, MAX_BYTES)  # not a pipe or a file, which the user's script may close
    interrupted = answered = again = False
    first = -math.inf

    def forward(number: int, _frame: object) -> None:
        nonlocal interrupted, again, first
        if now() - first <= _SAME_PRESS_SECONDS:
            return
        if interrupted:
            if not again:
                again = True
                child.limit(INTERRUPT_SECONDS)
            return
        interrupted, first = True, now()
        # A terminal sends Ctrl-C to the whole group, `kill` to us alone or to the group: a child that
        # ends by itself now has had it, and is not to be interrupted while it ends.
        if os.getpgid(0) != _foreground_group():
            until = now() + INTERRUPT_SECONDS
            while now() < until and not child.has_ended:
                time.sleep(0.02)
            child.send(number)

    def answer() -> None:
        nonlocal interrupted, answered
        if interrupted and not answered:
            answered = True
            if interrupting():
                interrupted = answered = False

    def answer_and_tick() -> None:
        answer()
        tick()

    with uninterrupted() as mask:
        child = Child.forked(lambda: _work_and_exit(work, raised, mask), seconds, stacks=stacks, now=now)
        signal.signal(signal.SIGINT, forward)
    try:
        if meanwhile is not None:
            meanwhile()
        supervise([child], answer_and_tick, looks, now)
        answer()
    finally:
        child.kill()
        signal.signal(signal.SIGINT, previous)
    data = raised[:].rstrip(b"\0")
    raised.close()
    if data:
        raise deserialised(data)
    return StepEnd(child.status, child.signal, interrupted, again, child.timed_out)


@calls_user_code
def _work_and_exit(work: Callable[[], int], raised: mmap.mmap, mask: set[int | signal.Signals]) -> NoReturn:
    """Run `work` in the child, and exit with the returned status; an exception goes into `raised`."""
    status = RAISED
    try:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        status = work()
    except BaseException as error:  # noqa: BLE001 - the process ends here; the parent raises it again
        raised.write(serialised(error))
    finally:
        for stream in (sys.stdout, sys.stderr):  # which the script may have closed or replaced
            with contextlib.suppress(OSError, ValueError, AttributeError):
                stream.flush()
        os._exit(status)


def _foreground_group() -> int:
    """Return the process group that the terminal sends Ctrl-C to, or -1 without a terminal."""
    try:
        with open("/dev/tty") as terminal:
            return os.tcgetpgrp(terminal.fileno())
    except OSError:
        return -1


_MAX_CHARACTERS = 1 << 14
MAX_BYTES = 16 * _MAX_CHARACTERS  # JSON has up to 12 bytes for a character, and a little beside it


def serialised(error: BaseException) -> bytes:
    """Serialise the class of an exception with the beginning of its message, or the end of its traceback.

    A MinifyError keeps its class, an error of the machine becomes MachineFailed, any other is this tool's own fault.
    """
    kind, message = type(error), str(error)[:_MAX_CHARACTERS]
    if (failure := machine_failure(error)) is not None:
        kind, message = type(failure), str(failure)
    elif not isinstance(error, MinifyError):
        kind, message = ToolFailed, "".join(traceback.format_exception(error))[-_MAX_CHARACTERS:]
    message = message.encode(errors="backslashreplace").decode()  # of lone surrogates no file can be made
    return json.dumps([kind.__module__, kind.__qualname__, message]).encode()


def deserialised(data: bytes) -> MinifyError:
    """Return the exception that another process serialised."""
    module, name, message = json.loads(data)
    error: MinifyError = operator.attrgetter(name)(importlib.import_module(module))(message)
    return error


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
