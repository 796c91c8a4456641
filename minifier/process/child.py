"""Child processes: forked or started, supervised in a loop, killed with all their descendants."""

from __future__ import annotations

import contextlib
import math
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from minifier.process.descendants import die_with_parent, mark, read_threads, spare, tree
from minifier.process.descriptors import ASK, StackFile, fatal_signal_in
from minifier.process.interrupts import ENDING, end_if_asked, uninterrupted

_MIN_SECONDS = 0.25  # between two readings

LOOK = 0.25  # seconds between two looks at children
_SUSPEND_GAP_SECONDS = 2.0  # a longer gap between two rounds means that this process was suspended (Ctrl-Z)
RAISED = 70  # the exit status of a forked child whose own code raised an exception
_STACK_POLLS = 20  # in the time that a child has to write its stack
_MIN_STACK_POLL_SECONDS = 0.02  # a busy machine may stop a child that long between two lines of its stack
_DEATH_SECONDS = 1.0  # for the handlers of a fatal signal, which may hang
_CHUNK = 1 << 16
_END_SECONDS = 10.0  # that a program has to clean up and end after SIGTERM


class Child:
    """A child process, forked or started, and waited for once.

    pid: its process id, which no other process gets until `code` is known.
    started, deadline: readings of `now`; `supervise` kills the child at the deadline, and sets `timed_out`.
    excused: seconds since `started` that count for no limit: it was suspended, or waited for a processor.
    exhausted: bytes in use when a memory watch killed the child; else 0.
    is_stopped: whether `stop` killed the child.
    data: the bytes that the child has written into its pipe.
    pipe: the open descriptor to read from, or None.
    code: its exit status, or a negative signal; None until the wait for the child is over.
    """

    def __init__(
        self,
        pid: int,
        seconds: float = math.inf,
        *,
        pipe: int | None = None,
        stacks: StackFile | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """`pipe` is the end to read from. With `stacks`, `stop` asks the child for its stack first.

        `now` is the clock that limits are measured by, in seconds.
        """
        self.pid = pid
        self.timed_out = False
        self.exhausted = 0
        self.data = b""
        self.code: int | None = None
        self.pipe, self._stacks = pipe, stacks
        self._ended = math.nan
        self.is_stopped = False
        self._dying: tuple[int, float] | None = None  # a fatal signal, and when it was noticed
        self._now, self._waiting = now, Waiting(pid, now)
        if pipe is not None:
            os.set_blocking(pipe, False)
        self.limit(seconds)

    @classmethod
    def forked(
        cls,
        run: Callable[[], NoReturn],
        seconds: float = math.inf,
        *,
        pipe: int | None = None,
        stacks: StackFile | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> Child:
        """Fork a child that runs `run`, has the signal handlers of a new process, and dies with this process.

        Call this within `uninterrupted`: a Ctrl-C right after the fork would lose the child. `run` sets the child's
        signal mask.
        """
        sys.stdout.flush()
        sys.stderr.flush()
        started, parent = now(), os.getpid()
        pid = os.fork()
        if pid == 0:
            try:
                die_with_parent()
                mark()
                if os.getppid() == parent:
                    _reset_handlers()
                    run()
            finally:
                os._exit(RAISED)
        child = cls(pid, seconds, pipe=pipe, stacks=stacks, now=now)
        child.started = started
        return child

    @classmethod
    def launched(cls, command: Sequence[str], first: Callable[[], object] = lambda: None, **options: Any) -> Child:
        """Start a program in a session of its own, which `kill_orphans` spares. `options` are for subprocess.Popen.

        `first` is called in the new process, ahead of the program. Call this in a process without threads. A signal
        that ends this process meanwhile ends the program as well.
        """
        child: Child | None = None

        def begin() -> None:
            mark()  # what the program starts at once has the mark as well
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            first()

        try:
            with uninterrupted() as mask:  # the hooks of fork() would swallow what a signal raises
                process = subprocess.Popen(command, start_new_session=True, preexec_fn=begin, **options)  # noqa: PLW1509
                process.returncode = 0  # the child is waited for here, by its id
                spare(process.pid)
                child = cls(process.pid)
        except BaseException:
            if child is not None:
                child.kill()
            raise
        return child

    def limit(self, seconds: float) -> None:
        """Let the child's time begin now, and end after so many seconds."""
        self._waiting.since_last()  # what it waited for before counts no more
        self.started, self.excused = self._now(), 0.0
        self.deadline = self.started + seconds

    @property
    def seconds(self) -> float:
        """The child's run time so far without the excused time, in seconds."""
        return (self._now() if self.code is None else self._ended) - self.started - self.excused

    def excuse(self, suspended: float = 0.0) -> None:
        """Do not count the time of waiting for a processor or, if given, the seconds of a suspension."""
        waited = self._waiting.since_last()
        self.excused += suspended or waited
        self.deadline += suspended or waited

    @property
    def status(self) -> int | None:
        """The exit status; None if the child still runs or died of a signal."""
        return self.code if self.code is not None and self.code >= 0 else None

    @property
    def signal(self) -> int | None:
        """The signal that killed the child, or None."""
        return -self.code if self.code is not None and self.code < 0 else None

    @property
    def has_ended(self) -> bool:
        """Whether the child has ended, waited for or not."""
        ended = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return self.code is not None or os.waitid(os.P_PID, self.pid, ended) is not None

    def send(self, number: int) -> None:
        """Send a signal, unless the child has ended."""
        if not self.has_ended:
            os.kill(self.pid, number)

    def stop(self, stack_seconds: float = math.inf) -> None:
        """Ask for the stack, for at most so many seconds, and kill the child with all its descendants."""
        self.is_stopped, self.deadline = True, math.inf
        if self._stacks is not None:
            self._ask_for_stack(self._stacks, min(stack_seconds, self._stacks.seconds))
        kill_tree(self.pid)

    def kill(self) -> None:
        """Kill the child with all its descendants, and wait for its end; do nothing after `wait`."""
        if self.code is None:
            kill_tree(self.pid)
            self.wait()

    def _ask_for_stack(self, stacks: StackFile, seconds: float) -> None:
        """Ask for the stack; wait until its file stops growing, the process ends or the time is up."""
        self.send(ASK)
        until, size = time.monotonic() + seconds, 0
        pause = max(seconds / _STACK_POLLS, _MIN_STACK_POLL_SECONDS)
        while time.monotonic() < until and not self.has_ended:
            time.sleep(pause)
            last_size, size = size, stacks.path.stat().st_size if stacks.path.exists() else 0
            if size and size == last_size:
                return

    def look_for_death(self) -> None:
        """Kill the child if it hangs in the handlers of a fatal signal. It counts as dead of that signal.

        A handler that allocates memory, as torch's does, waits for ever where the allocator itself ends the process.
        """
        if self._dying is not None and self._now() - self._dying[1] > _DEATH_SECONDS:
            kill_tree(self.pid)
        elif self._dying is None and self._stacks is not None:
            number = fatal_signal_in(self._stacks.path)
            self._dying = (number, self._now()) if number is not None else None

    def read(self) -> None:
        """Read all available bytes from the pipe; close the pipe at end-of-file."""
        with contextlib.suppress(BlockingIOError):
            while self.pipe is not None:
                chunk = os.read(self.pipe, _CHUNK)
                self.data += chunk
                if not chunk:
                    self._close_pipe()

    def wait(self) -> None:
        """Wait for the end, once. Kill the remaining processes of the child's own process group, if any."""
        with uninterrupted():
            os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
            self.excuse()
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)  # the number is not used again before the child is waited for
            self.read()
            self._close_pipe()
            self._ended = self._now()
            self.code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
            if self._dying is not None and self.code == -signal.SIGKILL:
                self.code = -self._dying[0]

    def _close_pipe(self) -> None:
        if self.pipe is not None:
            os.close(self.pipe)
            self.pipe = None


def signal_name(number: int) -> str:
    """Return the name of a signal: `SIGSEGV`, or `SIGRTMIN+1` for a real-time signal, which Python has no name for."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIGRTMIN{number - signal.SIGRTMIN:+}"


Look = Callable[[Sequence[Child]], "float | None"]
"""What `supervise` calls with the running children, to stop some: those that use too much memory, say.

It returns the seconds after which it wants to be called again, or None for the usual time.
"""


def run_to_end(child: Child, seconds: float, tick: Callable[[], object] = lambda: None) -> None:
    """Wait for the child, for so many seconds at most, as `supervise` does. Kill what is left of it."""
    child.limit(seconds)
    try:
        supervise([child], tick)
    finally:
        child.kill()


def supervise(
    children: Sequence[Child],
    tick: Callable[[], object] = lambda: None,
    looks: Sequence[Look] = (),
    now: Callable[[], float] = time.monotonic,
) -> None:
    """Wait until all the children have ended, and read their pipes.

    Each child is stopped at its deadline. Time in which this process was suspended, or a child waited for a processor,
    does not count. `tick` is called several times a second. All `looks` are called with the running children, every
    quarter of a second or as often as any look asks for. `now` is the children's clock.
    """
    next_look = now() + LOOK
    with contextlib.ExitStack() as stack:
        ends: dict[Child, int] = {}  # descriptors that tell a child's end; a grandchild may hold its pipe open
        for child in children:
            if child.code is None:
                ends[child] = os.pidfd_open(child.pid)
                stack.callback(os.close, ends[child])
        last_round = now()
        while running := [child for child in children if child.code is None]:
            end_if_asked()
            this_round = now()
            gap = this_round - last_round
            for child in running:
                child.excuse(gap if gap > _SUSPEND_GAP_SECONDS else 0.0)
            last_round = this_round
            for child in running:
                if this_round >= child.deadline and not child.has_ended:
                    child.timed_out = True
                    child.stop()
            if this_round >= next_look:
                for child in running:
                    child.look_for_death()
                next_look = this_round + min([LOOK, *filter(None, [look(running) for look in looks])])
            tick()
            wake = min([next_look, *(child.deadline for child in running)])
            pipes = [child.pipe for child in running if child.pipe is not None]
            ready = _readable([*pipes, *(ends[child] for child in running)], wake - now())
            for child in running:
                if child.pipe in ready:
                    child.read()
                if ends[child] in ready:
                    child.wait()


def _readable(files: Sequence[int], seconds: float) -> set[int]:
    """Wait for at most so many seconds until any of the files can be read; return all readable files."""
    poll = select.poll()
    for file in files:
        poll.register(file, select.POLLIN)
    return {file for file, _ in poll.poll(max(0.0, seconds * 1000))}


def _reset_handlers() -> None:
    """Reset the tool's signal handlers, in a process that may run the user's code."""
    for number in (*ENDING, signal.SIGTSTP):
        if callable(signal.getsignal(number)):  # an ignored one stays ignored
            signal.signal(number, signal.SIG_DFL)


def end(process: subprocess.Popen[Any], seconds: float = _END_SECONDS) -> None:
    """Terminate a program, and wait for its end; after so many seconds, or Ctrl-C, kill it with its descendants."""
    process.terminate()
    try:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
    finally:
        if process.poll() is None:
            kill_tree(process.pid)
        process.wait()


def kill_tree(pid: int) -> None:
    """Kill a process and all its descendants, whatever group or session they are in."""
    known: dict[int, int] = {}
    try:
        for _ in range(3):  # some may be starting more
            for each in tree(pid):
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


class Waiting:
    """The time that a process and its descendants wait for a processor, read again and again."""

    def __init__(self, pid: int, now: Callable[[], float] = time.monotonic) -> None:
        self._pid, self._now = pid, now
        self._read = now()
        self._threads: dict[str, tuple[float, float]] = {}

    def since_last(self) -> float:
        """Return the seconds since the last reading in which the processes could have run and did not.

        With n threads busy, n seconds of waiting are one second. A process that sleeps does not wait for a processor.
        Return 0 right after a reading, or if the kernel tells nothing.
        """
        now = self._now()
        lasted = now - self._read
        if lasted < _MIN_SECONDS:
            return 0.0
        before, self._threads, self._read = self._threads, _threads(self._pid), now
        ran = waited = 0.0
        for thread, (running, waiting) in self._threads.items():
            ran_before, waited_before = before.get(thread, (0.0, 0.0))
            ran, waited = ran + running - ran_before, waited + waiting - waited_before
        return waited / max(1.0, (ran + waited) / lasted)


def _threads(pid: int) -> dict[str, tuple[float, float]]:
    """Return for each thread of the process tree how many seconds it ran, and waited to run.

    Source: Documentation/scheduler/sched-stats.rst of Linux, "/proc/<pid>/schedstat", in nanoseconds.
    """
    found = {}
    for each in tree(pid):
        for thread, text in read_threads(each, "schedstat").items():
            ran, waited, _ = text.split()
            found[thread] = int(ran) / 1e9, int(waited) / 1e9
    return found
