"""Forked stages: each step that runs code of the user's does so in a process of its own."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_PATIENCE = 1.0  # seconds that a child has to end of a Ctrl-C of its own
TOOL_FAILED = 70  # the exit status of a stage whose own code, not the user's, raised


_prctl = ctypes.CDLL(None, use_errno=True).prctl


def die_with_parent() -> None:
    """Asks the kernel to kill this process when the one that forked it ends."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


_adopter: int | None = None


def adopt_orphans() -> None:
    """From now on descendants whose parent ends become children of this process, so that none is lost."""
    global _adopter
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    _adopter = os.getpid()


def kill_orphans() -> None:
    """Kills all children of a process that adopts orphans: what a probe left behind in a session of its
    own. Repeated, since the death of one brings its children."""
    if _adopter != os.getpid():
        return
    children = Path(f"/proc/self/task/{os.getpid()}/children")
    for _ in range(20):
        try:
            left = [int(pid) for pid in children.read_text().split()]
        except OSError:  # a kernel without that file
            return
        if not left:
            return
        for pid in left:
            with contextlib.suppress(ProcessLookupError, ChildProcessError):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)


def interrupt_once() -> None:
    """From now on a second SIGINT within some seconds of the first counts as the same Ctrl-C.

    A process that is sent one itself and with its group would else be interrupted again while it saves.
    """
    last = float("-inf")

    def handle(_number: int, _frame: object) -> None:
        nonlocal last
        before, last = last, time.monotonic()
        if last - before > 3 * _PATIENCE:
            raise KeyboardInterrupt

    signal.signal(signal.SIGINT, handle)


@dataclass(frozen=True, slots=True)
class StageEnd:
    """How a stage ended: an exit status, or the signal that killed it; and whether Ctrl-C was pressed."""

    status: int | None
    signal: int | None
    interrupted: bool


def run_stage(
    work: Callable[[], int], crash_report: Callable[[str], None], meanwhile: Callable[[], object] | None = None
) -> StageEnd:
    """Forks, runs `work` in the child and waits for it; `meanwhile` is done by this process first.

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
        # A terminal sends Ctrl-C to the whole group, `kill` to us alone or to the group: a child that
        # ends by itself now has had it, and is not to be interrupted while it ends.
        if not interrupted and os.getpgid(0) != _foreground_group():
            until = time.monotonic() + _PATIENCE
            while time.monotonic() < until and not _has_ended(pid):
                time.sleep(0.02)
            if not _has_ended(pid):
                os.kill(pid, number)
        interrupted = True

    signal.signal(signal.SIGINT, forward)
    try:
        if meanwhile is not None:
            meanwhile()
        _, code = os.waitpid(pid, 0)
    finally:
        signal.signal(signal.SIGINT, previous)
    if os.WIFSIGNALED(code):
        return StageEnd(None, os.WTERMSIG(code), interrupted)
    return StageEnd(os.WEXITSTATUS(code), None, interrupted)


def _has_ended(pid: int) -> bool:
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _foreground_group() -> int:
    """The process group that the terminal sends Ctrl-C to, or -1 without a terminal."""
    try:
        with open("/dev/tty") as terminal:
            return os.tcgetpgrp(terminal.fileno())
    except OSError:
        return -1
