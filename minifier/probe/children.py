"""Child processes for probes: forked, alone in their session, limited in time and memory, killed as a group."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import resource
import selectors
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from minifier.consumption import descendants
from minifier.descriptors import out_of_the_way
from minifier.memory import MemoryWatch, limit_data
from minifier.processes import LOOK, as_before_the_tool, die_with_parent, kill_orphans
from minifier.stacks import ASK, read_stack, stack_file
from minifier.torch_private import inductor_headers

Job = Callable[[], dict[str, Any]]
_TAIL = 4_000
_STACKS = "stacks"  # the file with a dying child's stacks
_MOMENT = 0.05  # seconds
COMPILED = "compiled"  # below the scratch folder: compiled code, shared by the probes of a run


@dataclass(frozen=True, slots=True)
class Ended:
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


@dataclass(frozen=True, slots=True)
class Limits:
    """For each child: wall seconds, and bytes of memory beyond what the parent has (None: together they may use most of
    what is free)."""

    seconds: float
    memory: int | None = None


_told_to: int | None = None


def tell(**facts: Any) -> None:
    """From inside a child: facts that the parent is to know even if the child dies at its next step."""
    if _told_to is not None:
        _write(_told_to, json.dumps(facts).encode() + b"\n")


@contextlib.contextmanager
def imports_told() -> Iterator[None]:
    """Within it the parent is told what was imported of torch, so that no later child has to."""
    before = set(sys.modules)
    try:
        yield
    finally:
        tell(loaded=[name for name in sys.modules if name.startswith("torch.") and name not in before])


class _Child:
    def __init__(self, job: Job, limits: Limits, scratch: Path) -> None:
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
            _live(job, limits, self.folder, headers, into)
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

    def end(self) -> Ended:
        """Waits for the child, cleans up after it, and tells how it ended."""
        _, code = os.waitpid(self.pid, 0)
        self.read()
        os.close(self.pipe)
        os.close(self.process)
        self.kill_group()
        seconds = time.monotonic() - self.started
        output = read_stack(self.folder / _STACKS) or _tail(self.folder / "output")
        shutil.rmtree(self.folder, ignore_errors=True)
        if self.timed_out or os.WIFSIGNALED(code):  # it may have died while writing a library there
            shutil.rmtree(self.folder.parent / COMPILED, ignore_errors=True)
        number = os.WTERMSIG(code) if os.WIFSIGNALED(code) else None
        status = None if number is not None else os.WEXITSTATUS(code)
        message: dict[str, Any] = {}
        for line in self.data.split(b"\n")[:-1]:  # the child may have died while writing the last
            message.update(json.loads(line))
        result = None if self.timed_out or self.exhausted else message.get("result")
        stage, fault = message.get("stage"), message.get("fault", "")
        loaded = tuple(message.get("loaded", ()))
        return Ended(result, seconds, number, status, self.timed_out, stage, fault, output, loaded, self.exhausted)

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


def _live(job: Job, limits: Limits, folder: Path, headers: Path | None, into: int) -> None:
    """The child's life: it never returns."""
    global _told_to
    _told_to = into
    message: dict[str, Any] = {}
    try:
        os.setsid()
        die_with_parent()
        as_before_the_tool()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        _quiet(folder, headers)
        stack_file(folder / _STACKS)
        _limit(limits)
        message = {"result": job()}
    except BaseException:  # noqa: BLE001 - a fault of the job's own code, told to the parent
        message = {"fault": traceback.format_exc()}
    finally:
        try:
            tell(**message)
            for stream in (sys.stdout, sys.stderr):  # which the job may have closed or replaced
                with contextlib.suppress(OSError, ValueError, AttributeError):
                    stream.flush()
        finally:
            os._exit(0)


def _write(into: int, data: bytes) -> None:
    while data:
        data = data[os.write(into, data) :]


def _quiet(folder: Path, headers: Path | None) -> None:
    """No terminal, no input, and temporary files in a folder that goes away with the child."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    output = os.open(folder / "output", os.O_WRONLY | os.O_CREAT, 0o600)
    os.dup2(nothing, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    work = folder / "work"
    work.mkdir()
    if headers is not None:
        (work / headers.name).symlink_to(headers)
    os.environ["TMPDIR"] = tempfile.tempdir = str(work)
    for variable in ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"):
        os.environ[variable] = str(folder.parent / COMPILED)
    os.chdir(work)


def _limit(limits: Limits) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if limits.memory is not None:
        limit_data(limits.memory)


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


def run_children(jobs: Sequence[Job], limits: Limits, scratch: Path) -> list[Ended]:
    """Runs each job in a child of its own, all at once, and waits for all.

    Whatever interrupts the waiting, no child is left behind.
    """
    gc.freeze()  # children then share the parent's pages instead of touching them in their own collections
    children: list[_Child] = []
    ended: dict[int, Ended] = {}
    memory = MemoryWatch() if limits.memory is None else None
    due = time.monotonic() + LOOK
    with selectors.DefaultSelector() as selector:
        try:
            for job in jobs:
                # A Ctrl-C inside fork() would be swallowed by its hooks, one right after it lose the child.
                with _uninterrupted():
                    child = _Child(job, limits, scratch)
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
                until = min((c.deadline for c in live if not c.timed_out), default=now + 60)
                ready = selector.select(max(0.0, min(until, due if memory is not None else until) - now))
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
