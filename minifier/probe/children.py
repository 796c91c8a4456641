"""Child processes for jobs: each in its own session, limited in time and memory, killed with its descendants."""

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
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from minifier.probe.life import STACKS, Job, Limits, run_job
from minifier.process.descriptors import out_of_the_way
from minifier.process.forked_step import LOOK, kill_orphans
from minifier.process.interrupts import uninterrupted
from minifier.process.memory import MemoryWatch
from minifier.process.stacks import ASK, read_stack
from minifier.process.usage import descendants
from minifier.torch_private import inductor_headers

_MAX_OUTPUT_BYTES = 4_000
_STACK_SECONDS = 0.05  # for a child to write its stack
COMPILED = "compiled"  # below the scratch folder: compiled code, shared by consecutive probes


@dataclass(frozen=True, slots=True)
class ChildEnd:
    """How a child ended.

    `result` is the job's return value. Without one, `signal`, `status`, `timed_out` or `exhausted` (killed for its
    memory use) tells why, and `stage` how far it came. `fault` is a traceback of the job's own code. `output` is the
    Python stack at its death, or else the end of its output. `loaded` are the modules of torch that it imported.
    """

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
"""Runs jobs with a scratch folder, as `run_children` does."""


class _Child:
    def __init__(self, job: Job, limits: Limits, scratch: Path, compiled: Path) -> None:
        self.compiled = compiled
        self.folder = Path(tempfile.mkdtemp(dir=scratch))
        self.pipe, write_end = os.pipe()
        self.data, self.closed = b"", False
        headers = inductor_headers()  # found by the parent: the child has another temporary folder
        self.started = time.monotonic()
        self.deadline = self.started + limits.seconds
        self.timed_out = self.exhausted = False
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self.pipe)
            run_job(job, limits, self.folder, compiled, headers, out_of_the_way(write_end))
        os.close(write_end)
        os.set_blocking(self.pipe, False)
        # The process tells the end: a grandchild may hold the pipe open.
        self.process = os.pidfd_open(self.pid)

    def read(self) -> None:
        """Read the pipe until it is empty."""
        try:
            while chunk := os.read(self.pipe, 1 << 16):
                self.data += chunk
            self.closed = True
        except BlockingIOError:
            return

    def ask_for_stack(self) -> None:
        """Let the child write its stack, and wait a moment."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, ASK)
        time.sleep(_STACK_SECONDS)

    def kill(self) -> None:
        """Kill the child and its process group."""
        for kill, target in ((os.killpg, self.pid), (os.kill, self.pid)):
            try:
                kill(target, signal.SIGKILL)
            except ProcessLookupError:
                continue

    def end(self) -> ChildEnd:
        """Wait for the child, and clean up after it."""
        _, code = os.waitpid(self.pid, 0)
        self.read()
        os.close(self.pipe)
        os.close(self.process)
        self.kill_group()
        seconds = time.monotonic() - self.started
        output = read_stack(self.folder / STACKS) or _tail(self.folder / "output")
        shutil.rmtree(self.folder, ignore_errors=True)
        if self.timed_out or os.WIFSIGNALED(code):  # a library there may be half-written
            shutil.rmtree(self.compiled, ignore_errors=True)
        number = os.WTERMSIG(code) if os.WIFSIGNALED(code) else None
        status = None if number is not None else os.WEXITSTATUS(code)
        message: dict[str, Any] = {}
        for line in self.data.split(b"\n")[:-1]:  # the last may be incomplete
            message.update(json.loads(line))
        result = None if self.timed_out or self.exhausted else message.get("result")
        stage, fault = message.get("stage"), message.get("fault", "")
        loaded = tuple(message.get("loaded", ()))
        return ChildEnd(result, seconds, number, status, self.timed_out, stage, fault, output, loaded, self.exhausted)

    def kill_group(self) -> None:
        """Kill grandchildren that outlived the child."""
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            return


def _tail(path: Path) -> str:
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _MAX_OUTPUT_BYTES))
            return file.read().decode(errors="replace")
    except OSError:
        return ""


def _check_memory(memory: MemoryWatch, running: Sequence[_Child]) -> float:
    """Kill the children if they use up the memory; return the seconds until the next check."""
    pause = memory.look([pid for child in running for pid in (child.pid, *descendants(child.pid))])
    if memory.exhausted:
        for child in running:
            if not child.timed_out:
                child.exhausted = True
                child.ask_for_stack()
            child.kill()
    return pause or LOOK


def _cache_folder(scratch: Path, number: int) -> Path:
    """Return the cache folder of a concurrent child.
    Each has its own: a crashed child may leave a half-written library, which no other child must load."""
    first = scratch / COMPILED
    if not number:
        return first
    folder = scratch / f"{COMPILED}-{number}"
    if first.exists() and not folder.exists():
        shutil.copytree(first, folder, symlinks=True)
    return folder


def run_children(
    jobs: Sequence[Job], limits: Limits, scratch: Path, tick: Callable[[], object] = lambda: None
) -> list[ChildEnd]:
    """Run each job in its own child, all at once, and wait for all; call `tick` several times a second.
    An interrupt leaves no child behind."""
    gc.freeze()  # children share the parent's pages: their garbage collections do not touch them
    children: list[_Child] = []
    ended: dict[int, ChildEnd] = {}
    folders = [_cache_folder(scratch, number) for number in range(len(jobs))]  # copied before any child writes
    memory = MemoryWatch() if limits.memory is None else None
    next_check = time.monotonic() + LOOK
    with selectors.DefaultSelector() as selector:
        try:
            for job, compiled in zip(jobs, folders, strict=True):
                # The hooks of fork() would swallow a Ctrl-C; one right after it would lose the child.
                with uninterrupted():
                    child = _Child(job, limits, scratch, compiled)
                    children.append(child)
                selector.register(child.pipe, selectors.EVENT_READ, child)
                selector.register(child.process, selectors.EVENT_READ, child)
            while running := [child for child in children if child.pid not in ended]:
                now = time.monotonic()
                for child in running:
                    if now >= child.deadline and not child.timed_out:
                        child.timed_out = True
                        child.ask_for_stack()
                        child.kill()
                if memory is not None and now >= next_check:
                    next_check = now + _check_memory(memory, running)
                tick()
                deadline = min((c.deadline for c in running if not c.timed_out), default=now + 60)
                wake = min(deadline, next_check if memory is not None else now + LOOK)
                ready = selector.select(max(0.0, wake - now))
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
                        with uninterrupted():  # waitpid works once
                            ended[child.pid] = child.end()
        finally:
            for child in children:
                if child.pid not in ended:
                    child.kill()
                    child.end()
            kill_orphans()
    return [ended[child.pid] for child in children]
