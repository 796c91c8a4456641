"""Forked steps: every step of a run that calls the user's code does so in a process of its own."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import importlib
import json
import mmap
import os
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from minifier.errors import MachineFailed, MinifyError, ToolFailed
from minifier.process.interrupts import INTERRUPT_SECONDS, uninterrupted
from minifier.process.stacks import calls_user_code
from minifier.process.usage import descendants

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
LOOK = 0.25  # seconds between two polls of a child
_MAX_ERROR_CHARACTERS = 1 << 14
_MAX_ERROR_BYTES = 16 * _MAX_ERROR_CHARACTERS  # JSON has up to 12 bytes for a character, and a little beside it
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EFBIG)  # errors of a disk that takes no more
RAISED = 70  # the exit status of a step that raised an exception


_prctl = ctypes.CDLL(None, use_errno=True).prctl


def die_with_parent() -> None:
    """Ask the kernel to kill this process when its parent ends."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


_adopter: int | None = None
_spared: set[int] = set()  # our descendants from before the adoption; never killed


def adopt_orphans() -> None:
    """From now on, adopt descendants whose parent ends, so that none is lost."""
    global _adopter
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    if _adopter != os.getpid():
        _spared.clear()
        spare_children()
    _adopter = os.getpid()


def spare_children() -> None:
    """Let `kill_orphans` spare every process that this one has started so far: a run starts with none of its own."""
    _spared.update(descendants(os.getpid()))


def spare(pid: int) -> None:
    """Let `kill_orphans` spare this child."""
    _spared.add(pid)


def kill_orphans() -> None:
    """Kill the adopted orphans: descendants that a probe left in sessions of their own.

    Repeated, since the death of an orphan brings its children. Does nothing in a process that adopts none.
    """
    if _adopter != os.getpid():
        return
    children = Path(f"/proc/self/task/{os.getpid()}/children")
    for _ in range(20):
        try:
            left = [int(pid) for pid in children.read_text().split() if int(pid) not in _spared]
        except OSError:  # a kernel without that file
            return
        if not left:
            return
        for pid in left:
            with contextlib.suppress(ProcessLookupError, ChildProcessError):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)


def as_before_the_tool() -> None:
    """Reset the tool's signal handlers, in a process that runs the user's code."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if callable(signal.getsignal(number)):  # an ignored one stays ignored
            signal.signal(number, signal.SIG_DFL)


@dataclass(frozen=True, slots=True)
class StepEnd:
    """How a step ended: its exit status, or the signal that killed it; and whether Ctrl-C was pressed."""

    status: int | None
    signal: int | None
    interrupted: bool


def run_step(
    work: Callable[[], int],
    meanwhile: Callable[[], object] | None = None,
    look: Callable[[int], float | None] | None = None,
    interrupting: Callable[[], object] | None = None,
) -> StepEnd:
    """Fork, run `work` in the child, and wait for it; its return value is the child's exit status.

    This process calls `meanwhile` first. It calls `look` with the child's process id every quarter of a second, or
    after as many seconds as the last call returned. Ctrl-C goes to the child; this process calls `interrupting` once,
    from its loop, and waits on.

    What `work` raises is raised by `run_step`: a MinifyError with its class and message, MachineFailed for a file that
    cannot be written, and ToolFailed with the traceback for any other exception, which is this tool's own fault.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    parent = os.getpid()
    previous = signal.getsignal(signal.SIGINT)
    raised = mmap.mmap(-1, _MAX_ERROR_BYTES)  # not a pipe or a file, which the user's script may close
    interrupted = answered = False

    def forward(number: int, _frame: object) -> None:
        nonlocal interrupted
        # A terminal sends Ctrl-C to the whole group, `kill` to us alone or to the group: a child that
        # ends by itself now has had it, and is not to be interrupted while it ends.
        if not interrupted and os.getpgid(0) != _foreground_group():
            until = time.monotonic() + INTERRUPT_SECONDS
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

    with uninterrupted() as mask:
        pid = os.fork()
        if pid == 0:
            _work_and_exit(work, parent, raised, mask)
        signal.signal(signal.SIGINT, forward)
    try:
        if meanwhile is not None:
            meanwhile()
        code = _wait(pid, look_and_answer)
        answer()
    finally:
        signal.signal(signal.SIGINT, previous)
    error = _error_in(raised)
    raised.close()
    if error is not None:
        raise error
    if os.WIFSIGNALED(code):
        return StepEnd(None, os.WTERMSIG(code), interrupted)
    return StepEnd(os.WEXITSTATUS(code), None, interrupted)


@calls_user_code
def _work_and_exit(
    work: Callable[[], int], parent: int, raised: mmap.mmap, mask: set[int | signal.Signals]
) -> NoReturn:
    """In the child: exit with the status that `work` returns; what it raises goes into `raised`."""
    status = RAISED
    try:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        die_with_parent()
        if os.getppid() != parent:
            os._exit(RAISED)
        as_before_the_tool()
        status = work()
    except BaseException as error:  # noqa: BLE001 - the process ends here; the parent raises it again
        raised.write(_serialised(error))
    finally:
        for stream in (sys.stdout, sys.stderr):  # which the script may have closed or replaced
            with contextlib.suppress(OSError, ValueError, AttributeError):
                stream.flush()
        os._exit(status)


def _serialised(error: BaseException) -> bytes:
    """The class of an exception and the beginning of its message, or the end of its traceback."""
    kind, message = type(error), str(error)[:_MAX_ERROR_CHARACTERS]
    if isinstance(error, OSError) and error.errno in FULL:
        kind, message = MachineFailed, f"a file cannot be written to: {error}"
    elif not isinstance(error, MinifyError):
        kind, message = ToolFailed, traceback.format_exc()[-_MAX_ERROR_CHARACTERS:]
    message = message.encode(errors="backslashreplace").decode()  # of lone surrogates no file can be made
    return json.dumps([kind.__module__, kind.__qualname__, message]).encode()


def _error_in(raised: mmap.mmap) -> MinifyError | None:
    """The exception that a child serialised, if there is one."""
    data = raised[:].rstrip(b"\0")
    if not data:
        return None
    module, name, message = json.loads(data)
    error: MinifyError = getattr(importlib.import_module(module), name)(message)
    return error


def _wait(pid: int, look: Callable[[int], float | None]) -> int:
    """Wait for the child, and return its wait status."""
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
    """Return the process group that the terminal sends Ctrl-C to, or -1 without a terminal."""
    try:
        with open("/dev/tty") as terminal:
            return os.tcgetpgrp(terminal.fileno())
    except OSError:
        return -1


def kill_tree(pid: int) -> None:
    """Kill a process and all its descendants, whatever group or session they are in."""
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
