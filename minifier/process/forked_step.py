"""Forked steps: every step of a run that calls the user's code does so in a process of its own."""

from __future__ import annotations

import contextlib
import mmap
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NoReturn

from minifier.process.child import RAISED, Child, Look, supervise
from minifier.process.interrupts import INTERRUPT_SECONDS, uninterrupted
from minifier.process.passed_errors import MAX_BYTES, deserialised, serialised
from minifier.process.stacks import StackFile, calls_user_code

_SAME_PRESS_SECONDS = 0.3  # one Ctrl-C may arrive twice, directly and through the process group


@dataclass(frozen=True, slots=True)
class StepEnd:
    """How a step ended: its exit status or fatal signal, and whether Ctrl-C was pressed once, and again."""

    status: int | None
    signal: int | None
    interrupted: bool
    interrupted_again: bool = False

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
    interrupting: Callable[[], object] = lambda: None,
    now: Callable[[], float] = time.monotonic,
) -> StepEnd:
    """Run `work` in a forked child, and wait for the end. The return value of `work` is the child's exit status.

    This process calls `meanwhile` first, then `tick` and `looks` as `supervise` does. A child that must be stopped is
    asked for its stack in the file `stacks`. Ctrl-C goes to the child; this process calls `interrupting` once, from its
    loop, and waits on. `now` is the clock, in seconds.

    An exception of `work` is raised again in this process: a MinifyError with its class and message, MachineFailed for
    a file that cannot be written, and ToolFailed with the traceback for any other, which is this tool's own fault.
    """
    previous = signal.getsignal(signal.SIGINT)
    raised = mmap.mmap(-1, MAX_BYTES)  # not a pipe or a file, which the user's script may close
    interrupted = answered = again = False
    first = 0.0

    def forward(number: int, _frame: object) -> None:
        nonlocal interrupted, again, first
        if interrupted:
            again = again or now() - first > _SAME_PRESS_SECONDS
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
        nonlocal answered
        if interrupted and not answered:
            answered = True
            interrupting()

    def answer_and_tick() -> None:
        answer()
        tick()

    with uninterrupted() as mask:
        child = Child.forked(lambda: _work_and_exit(work, raised, mask), stacks=stacks, now=now)
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
    return StepEnd(child.status, child.signal, interrupted, again)


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
