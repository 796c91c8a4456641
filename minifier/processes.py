"""Forked stages: each step that runs code of the user's does so in a process of its own."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass

_PR_SET_PDEATHSIG = 1
TOOL_FAILED = 70  # the exit status of a stage whose own code, not the user's, raised


def die_with_parent() -> None:
    """Asks the kernel to kill this process when the one that forked it ends."""
    try:
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    except (OSError, AttributeError):  # not Linux: the parent's own clean-up is all there is
        return


@dataclass(frozen=True, slots=True)
class StageEnd:
    """How a stage ended: an exit status, or the signal that killed it; and whether Ctrl-C was pressed."""

    status: int | None
    signal: int | None
    interrupted: bool


def run_stage(work: Callable[[], int], crash_report: Callable[[str], None]) -> StageEnd:
    """Forks, runs `work` in the child and waits for it.

    The child's exit status is what `work` gives back. An exception that leaves `work` is the tool's own
    fault: `crash_report` gets the traceback, in the child, and the status is TOOL_FAILED. Ctrl-C goes to
    the child; this process waits on.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    parent = os.getpid()
    previous = signal.getsignal(signal.SIGINT)
    pid = os.fork()
    if pid == 0:
        status = TOOL_FAILED
        try:
            die_with_parent()
            if os.getppid() != parent:
                os._exit(TOOL_FAILED)
            status = work()
        except BaseException:  # noqa: BLE001 - the process ends here; the traceback goes to the report
            crash_report(traceback.format_exc())
        finally:
            for stream in (sys.stdout, sys.stderr):  # which the script may have closed or replaced
                with contextlib.suppress(OSError, ValueError, AttributeError):
                    stream.flush()
            os._exit(status)
    interrupted = False

    def forward(number: int, _frame: object) -> None:
        nonlocal interrupted
        # A terminal sends Ctrl-C to the whole group, `kill` to us alone; a second SIGINT does no harm.
        if not interrupted and os.getpgid(0) != _foreground_group():
            os.kill(pid, number)
        interrupted = True

    signal.signal(signal.SIGINT, forward)
    try:
        _, code = os.waitpid(pid, 0)
    finally:
        signal.signal(signal.SIGINT, previous)
    if os.WIFSIGNALED(code):
        return StageEnd(None, os.WTERMSIG(code), interrupted)
    return StageEnd(os.WEXITSTATUS(code), None, interrupted)


def _foreground_group() -> int:
    """The process group that the terminal sends Ctrl-C to, or -1 without a terminal."""
    try:
        with open("/dev/tty") as terminal:
            return os.tcgetpgrp(terminal.fileno())
    except OSError:
        return -1
