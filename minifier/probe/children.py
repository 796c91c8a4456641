"""Child processes for probes: forked, alone in their session, limited in time and memory, killed as a group."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import selectors
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from minifier.probe.life import STACKS, Job, Limits, live
from minifier.process.descriptors import out_of_the_way
from minifier.process.memory import MemoryWatch
from minifier.process.stacks import ASK, read_stack
from minifier.process.steps import LOOK, kill_orphans
from minifier.process.usage import descendants
from minifier.torch_private import inductor_headers

_TAIL = 4_000
_MOMENT = 0.05  # seconds
COMPILED = "compiled"  # below the scratch folder: compiled code, shared by the probes of a run that are not at once


@dataclass(frozen=True, slots=True)
class ChildEnd:
    """How a child ended. `result` is what its job gave back; without one, `signal`, `status`, `timed_out` or
    `exhausted` (it was killed for the memory that it took) says why, and `stage` how far it had come. `fault` is a
    traceback of the job's own code; `output` the Python stack at its death, or the end of what it printed; `loaded`
    the modules of torch's that it had to import for itself."""

    result: dict[str, Any] | None
    seconds: float
    signal: int | None = None
    status: int | None = None
    timed_out: bool = False
    stage: str | None = None
    fault: str = ""
    output: str = ""
    loaded: tuple[str, ...] = ()
    exhausted: bool = False


RunJobs = Callable[[Sequence[Job], Limits, Path], list[ChildEnd]]
"""Runs jobs below a scratch folder, as `run_children` does, and returns how each ended."""


class _Child:
    def __init__(self, job: Job, limits: Limits, scratch: Path, compiled: Path) -> None:
        self.compiled = compiled
        self.folder = Path(tempfile.mkdtemp(dir=scratch))
        self.pipe, into = os.pipe()
        self.data, self.closed = b"", False
        headers = inductor_headers()  # looked for here: the child has another temporary folder
        self.started = time.monotonic()
        self.deadline = self.started + limits.seconds
        self.timed_out = self.exhausted = False
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self.pipe)
            into = out_of_the_way(into)
            live(job, limits, self.folder, compiled, headers, into)
        os.close(into)
        os.set_blocking(self.pipe, False)
        # The process, not the pipe, tells the end: a grandchild may hold the pipe open.
        self.process = os.pidfd_open(self.pid)

    def read(self) -> None:
        """Takes what is in the pipe."""
        try:
            while chunk := os.read(self.pipe, 1 << 16):
                self.data += chunk
            self.closed = True
        except BlockingIOError:
            return

    def ask_for_stack(self) -> None:
        """Has the child write down where it is, and gives it a moment for that."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, ASK)
        time.sleep(_MOMENT)

    def kill(self) -> None:
        """Kills the child and all it started in its session's group."""
        for kill, target in ((os.killpg, self.pid), (os.kill, self.pid)):
            try:
                kill(target, signal.SIGKILL)
            except ProcessLookupError:
                continue

    def end(self) -> ChildEnd:
        """Waits for the child, cleans up after it, and tells how it ended."""
        _, code = os.waitpid(self.pid, 0)
        self.read()
        os.close(self.pipe)
        os.close(self.process)
        self.kill_group()
        seconds = time.monotonic() - self.started
        output = read_stack(self.folder / STACKS) or _tail(self.folder / "output")
        shutil.rmtree(self.folder, ignore_errors=True)
        if self.timed_out or os.WIFSIGNALED(code):  # it may have died while writing a library there
            shutil.rmtree(self.compiled, ignore_errors=True)
        number = os.WTERMSIG(code) if os.WIFSIGNALED(code) else None
        status = None if number is not None else os.WEXITSTATUS(code)
        message: dict[str, Any] = {}
        for line in self.data.split(b"\n")[:-1]:  # the child may have died while writing the last
            message.update(json.loads(line))
        result = None if self.timed_out or self.exhausted else message.get("result")
        stage, fault = message.get("stage"), message.get("fault", "")
        loaded = tuple(message.get("loaded", ()))
        return ChildEnd(result, seconds, number, status, self.timed_out, stage, fault, output, loaded, self.exhausted)

    def kill_group(self) -> None:
        """Ends grandchildren that outlived the child."""
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            return


def _tail(path: Path) -> str:
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _TAIL))
            return file.read().decode(errors="replace")
    except OSError:
        return ""


def _look_at_memory(memory: MemoryWatch, live: Sequence[_Child]) -> float:
    """Ends the children where they go on taking memory; gives the seconds until the next look."""
    pause = memory.look([pid for child in live for pid in (child.pid, *descendants(child.pid))])
    if memory.exhausted:
        for child in live:
            if not child.timed_out:
                child.exhausted = True
                child.ask_for_stack()
            child.kill()
    return pause or LOOK


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """Has a Ctrl-C wait for the end of this."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def _compiled(scratch: Path, place: int) -> Path:
    """Where the child at this place of those that run at once has its compiled code. What dies there may leave half a
    library, which no other is to find."""
    first = scratch / COMPILED
    if not place:
        return first
    folder = scratch / f"{COMPILED}-{place}"
    if first.exists() and not folder.exists():
        shutil.copytree(first, folder, symlinks=True)
    return folder


def run_children(
    jobs: Sequence[Job], limits: Limits, scratch: Path, tick: Callable[[], object] = lambda: None
) -> list[ChildEnd]:
    """Runs each job in a child of its own, all at once, and waits for all; calls `tick` several times a second.

    Whatever interrupts the waiting, no child is left behind.
    """
    gc.freeze()  # children then share the parent's pages instead of touching them in their own collections
    children: list[_Child] = []
    ended: dict[int, ChildEnd] = {}
    folders = [_compiled(scratch, place) for place in range(len(jobs))]  # while no child writes to any
    memory = MemoryWatch() if limits.memory is None else None
    due = time.monotonic() + LOOK
    with selectors.DefaultSelector() as selector:
        try:
            for job, compiled in zip(jobs, folders, strict=True):
                # A Ctrl-C inside fork() would be swallowed by its hooks, one right after it lose the child.
                with _uninterrupted():
                    child = _Child(job, limits, scratch, compiled)
                    children.append(child)
                selector.register(child.pipe, selectors.EVENT_READ, child)
                selector.register(child.process, selectors.EVENT_READ, child)
            while live := [child for child in children if child.pid not in ended]:
                now = time.monotonic()
                for child in live:
                    if now >= child.deadline and not child.timed_out:
                        child.timed_out = True
                        child.ask_for_stack()
                        child.kill()
                if memory is not None and now >= due:
                    due = now + _look_at_memory(memory, live)
                tick()
                until = min((c.deadline for c in live if not c.timed_out), default=now + 60)
                ready = selector.select(max(0.0, min(until, due if memory is not None else now + LOOK) - now))
                for key, _ in ready:
                    child = key.data
                    if key.fd != child.process:
                        child.read()
                        if child.closed:
                            selector.unregister(child.pipe)
                for key, _ in ready:
                    child = key.data
                    if key.fd == child.process:
                        selector.unregister(child.process)
                        if not child.closed:
                            selector.unregister(child.pipe)
                        with _uninterrupted():  # a child can be waited for once
                            ended[child.pid] = child.end()
        finally:
            for child in children:
                if child.pid not in ended:
                    child.kill()
                    child.end()
            kill_orphans()
    return [ended[child.pid] for child in children]
