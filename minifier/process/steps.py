"""Forked stages: each step that runs code of the user's does so in a process of its own."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import mmap
import os
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from minifier.process.stacks import calls_user_code
from minifier.process.usage import descendants

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_PATIENCE = 1.0  # seconds that a child has to end of a Ctrl-C of its own
LOOK = 0.25  # seconds between two looks at a child
_LONGEST_CRASH = 1 << 16
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EFBIG)  # errors of a disk that takes no more
DISK_FULL = 72  # the exit status of a stage that could not write
TOOL_FAILED = 70  # the exit status of a stage whose own code, not the user's, raised


_prctl = ctypes.CDLL(None, use_errno=True).prctl


def die_with_parent() -> None:
    """Asks the kernel to kill this process when the one that forked it ends."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


_adopter: int | None = None
_found: set[int] = set()  # descendants that the adopter had before: jobs of the shell that it was, say


def adopt_orphans() -> None:
    """From now on descendants whose parent ends become children of this process, so that none is lost."""
    global _adopter
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    if _adopter != os.getpid():
        _found.clear()
        _found.update(descendants(os.getpid()))
    _adopter = os.getpid()


def spare(pid: int) -> None:
    """Has `kill_orphans` leave this child of ours alone."""
    _found.add(pid)


def kill_orphans() -> None:
    """Kills all children of a process that adopts orphans, but for those that it had before: what a probe left
    behind in a session of its own. Repeated, since the death of one brings its children."""
    if _adopter != os.getpid():
        return
    children = Path(f"/proc/self/task/{os.getpid()}/children")
    for _ in range(20):
        try:
            left = [int(pid) for pid in children.read_text().split() if int(pid) not in _found]
        except OSError:  # a kernel without that file
            return
        if not left:
            return
        for pid in left:
            with contextlib.suppress(ProcessLookupError, ChildProcessError):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)


def as_before_the_tool() -> None:
    """Takes back this tool's own handlers of signals, in a process that runs code of the user's."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if callable(signal.getsignal(number)):  # one that was ignored is so still
            signal.signal(number, signal.SIG_DFL)


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


@contextlib.contextmanager
def deaf() -> Iterator[None]:
    """Within it a Ctrl-C is not heard: what cleans up is done in a moment, and leaves a mess if it is interrupted."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@dataclass(frozen=True, slots=True)
class StageEnd:
    """How a stage ended: an exit status, or the signal that killed it; and whether Ctrl-C was pressed. `crash`
    is the traceback of a fault of this tool's own, if that is what ended it."""

    status: int | None
    signal: int | None
    interrupted: bool
    crash: str = ""


def run_stage(
    work: Callable[[], int],
    meanwhile: Callable[[], object] | None = None,
    look: Callable[[int], float | None] | None = None,
    interrupting: Callable[[], object] | None = None,
) -> StageEnd:
    """Forks, runs `work` in the child and waits for it; `meanwhile` is done by this process first, and `look` is
    called with the child's process id every quarter of a second, or after as many seconds as it gave back.

    The child's exit status is what `work` gives back. An exception that leaves `work` is the tool's own
    fault: `crash` is its traceback then, and the status TOOL_FAILED, or DISK_FULL where it could not write. Ctrl-C goes
    to the child; this process calls `interrupting` once, from its loop, and waits on.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    parent = os.getpid()
    previous = signal.getsignal(signal.SIGINT)
    told = mmap.mmap(-1, _LONGEST_CRASH)  # not a pipe or a file, which the user's script may close
    pid = os.fork()
    if pid == 0:
        _work_and_exit(work, parent, told)
    interrupted = answered = False

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

    def answer() -> None:
        nonlocal answered
        if interrupted and not answered and interrupting is not None:
            answered = True
            interrupting()

    def look_and_answer(pid: int) -> float | None:
        answer()
        return look(pid) if look is not None else None

    signal.signal(signal.SIGINT, forward)
    try:
        if meanwhile is not None:
            meanwhile()
        code = _wait(pid, look_and_answer)
        answer()
    finally:
        signal.signal(signal.SIGINT, previous)
    crash = told[:].rstrip(b"\0").decode(errors="replace")
    told.close()
    if os.WIFSIGNALED(code):
        return StageEnd(None, os.WTERMSIG(code), interrupted, crash)
    return StageEnd(os.WEXITSTATUS(code), None, interrupted, crash)


@calls_user_code
def _work_and_exit(work: Callable[[], int], parent: int, told: mmap.mmap) -> NoReturn:
    """In the child: exit with the status that `work` gives back; a traceback goes into `told`."""
    status = TOOL_FAILED
    try:
        die_with_parent()
        if os.getppid() != parent:
            os._exit(TOOL_FAILED)
        as_before_the_tool()
        status = work()
    except OSError as error:
        told.write(traceback.format_exc().encode(errors="backslashreplace")[-_LONGEST_CRASH:])
        status = DISK_FULL if error.errno in FULL else TOOL_FAILED
    except BaseException:  # noqa: BLE001 - the process ends here; the traceback goes to the parent
        told.write(traceback.format_exc().encode(errors="backslashreplace")[-_LONGEST_CRASH:])
    finally:
        for stream in (sys.stdout, sys.stderr):  # which the script may have closed or replaced
            with contextlib.suppress(OSError, ValueError, AttributeError):
                stream.flush()
        os._exit(status)


def _wait(pid: int, look: Callable[[int], float | None]) -> int:
    """The wait status of the child, once it has ended."""
    process = os.pidfd_open(pid)
    try:
        poll = select.poll()
        poll.register(process, select.POLLIN)
        pause = LOOK
        while not poll.poll(pause * 1000):
            pause = look(pid) or LOOK
    finally:
        os.close(process)
    return os.waitpid(pid, 0)[1]


def _has_ended(pid: int) -> bool:
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _foreground_group() -> int:
    """The process group that the terminal sends Ctrl-C to, or -1 without a terminal."""
    try:
        with open("/dev/tty") as terminal:
            return os.tcgetpgrp(terminal.fileno())
    except OSError:
        return -1


def kill_tree(pid: int) -> None:
    """Kills a process and all its descendants, whatever group or session they are in."""
    known: dict[int, int] = {}
    try:
        for _ in range(3):  # some may be starting more
            for each in [pid, *descendants(pid)]:
                if each not in known:
                    with contextlib.suppress(ProcessLookupError):
                        known[each] = os.pidfd_open(each)  # a number may come to stand for another process
            for process in known.values():
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    signal.pidfd_send_signal(process, signal.SIGSTOP)
        for process in known.values():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                signal.pidfd_send_signal(process, signal.SIGKILL)
    finally:
        for process in known.values():
            os.close(process)
