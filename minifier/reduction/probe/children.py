"""Child processes for jobs: limited in time and memory, killed with all descendants; and the code that runs in them."""

from __future__ import annotations

import contextlib
import gc
import itertools
import os
import resource
import shutil
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from minifier.data.torch_names import CACHES_OF_GRAPHS
from minifier.process.channel import Sender, read_messages
from minifier.process.child import Child, supervise
from minifier.process.descendants import kill_orphans
from minifier.process.descriptors import StackFile, calls_user_code, out_of_the_way, read_stack, stack_file
from minifier.process.interrupts import INTERRUPTING, uninterrupted
from minifier.process.machine import MemoryWatch, lift_limits, limit_data
from minifier.torch_side.torch_private.inductor import compile_in_this_process, inductor_headers

Job = Callable[[], dict[str, Any]]
STACKS = "stacks"  # the file with a dying child's stacks
AHEAD = "ahead"  # reported in place of a stage, during the calls ahead of the failing call


@dataclass(frozen=True, slots=True)
class Limits:
    """For each child: wall seconds, and bytes of memory more than the parent has.
    With None, all children together may use most of the free memory."""

    seconds: float
    memory: int | None = None


_to_parent: Sender | None = None


def tell(**facts: Any) -> None:
    """Report facts from a child to its parent, which has them even if the child dies at its next step."""
    if _to_parent is not None:
        _to_parent.send(**facts)


def end_with(result: dict[str, Any]) -> NoReturn:
    """End a child in the middle of its job: this is the job's result."""
    tell(result=result)
    os._exit(0)


def fall_silent() -> None:
    """Report nothing from now on, in a fork of a child: its facts would be taken for the child's."""
    global _to_parent
    _to_parent = None


@contextlib.contextmanager
def imports_told() -> Iterator[None]:
    """Report the modules of torch imported in the block, so that the parent can import them for later children.

    What inductor has written for a graph is a module too, but one without a spec. Only the end of the table of modules
    is read: each entry that is touched has its page copied in a fork.
    """
    last = next(reversed(sys.modules))
    try:
        yield
    finally:
        new = [name for name in itertools.takewhile(last.__ne__, reversed(sys.modules)) if name.startswith("torch.")]
        tell(loaded=[name for name in reversed(new) if getattr(sys.modules[name], "__spec__", None) is not None])


@calls_user_code
def run_job(job: Job, limits: Limits, folder: Path, compiled: Path, headers: Path | None, pipe: int) -> NoReturn:
    """Run the job in a new child, and exit. `folder` is the child's own, `compiled` the cache of compiled code.
    `headers` are inductor's precompiled headers; `pipe` leads to the parent."""
    global _to_parent
    _to_parent = Sender(pipe)
    gc.freeze()  # collections here do not touch the pages that are shared with the parent
    message: dict[str, Any] = {}
    try:
        os.setsid()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, INTERRUPTING)
        _isolate(folder, compiled, headers)
        stack_file(folder / STACKS)
        _limit(limits)
        lift_limits()
        message = {"result": job()}
    except BaseException:  # noqa: BLE001 - a fault of the job's own code, reported to the parent
        message = {"fault": traceback.format_exc()}
    finally:
        try:
            tell(**message)
            for stream in (sys.stdout, sys.stderr):  # the job may have closed or replaced them
                with contextlib.suppress(OSError, ValueError, AttributeError):
                    stream.flush()
        finally:
            os._exit(0)


def _isolate(folder: Path, compiled: Path, headers: Path | None) -> None:
    """Detach the child from the terminal, and keep its temporary files, and what compiles for it, in its own place."""
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
        os.environ[variable] = str(compiled)
    os.chdir(work)
    compile_in_this_process()


def _limit(limits: Limits) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if limits.memory is not None:
        limit_data(limits.memory)


_MAX_OUTPUT_CHARACTERS = 4_000
_MAX_WRITTEN_BYTES = 100_000  # in which native diagnostics are looked for
_STACK_SECONDS = 0.05  # for a child to write its stack
MAX_TRIES = 3  # of a job whose child was killed from outside
COMPILED = "compiled"  # below the scratch folder: compiled code, shared by consecutive probes


@dataclass(frozen=True, slots=True)
class ChildEnd:
    """How a child ended.

    `result` is the job's return value. If None, `signal`, `status`, `timed_out`, `exhausted` (killed for its memory
    use) or `fault` (a traceback of the job's own code) has the reason, and `stage` is the last stage begun. `output` is
    the Python stack at the child's death, or else the end of its output; `written` is always the end of its output.
    `loaded` are the modules of torch that the child imported. `told` are all facts that the child told.
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
    written: str = ""
    told: Mapping[str, Any] = field(default_factory=dict)

    @property
    def was_killed(self) -> bool:
        """Whether somebody else killed the child, or the child itself: the kernel for lack of memory, say."""
        return self.signal == signal.SIGKILL and not self.timed_out and not self.exhausted


RunJobs = Callable[[Sequence[Job], Limits, Path], list[ChildEnd]]
"""Runs jobs with a scratch folder, as `run_children` does."""


class _Probe:
    """A child with a job, and its folders. Create this object within `uninterrupted`."""

    def __init__(self, job: Job, limits: Limits, scratch: Path, compiled: Path) -> None:
        self._compiled = compiled
        self._folder = folder = Path(tempfile.mkdtemp(dir=scratch))
        self._stacks = folder / STACKS
        headers = inductor_headers()  # found by the parent: the child has another temporary folder
        read_end, write_end = os.pipe()

        def run() -> NoReturn:
            os.close(read_end)
            run_job(job, limits, folder, compiled, headers, out_of_the_way(write_end))

        stacks = StackFile(self._stacks, _STACK_SECONDS)
        self.child = Child.forked(run, limits.seconds, pipe=read_end, stacks=stacks)
        os.close(write_end)

    @property
    def ended_by_itself(self) -> bool:
        """Whether no signal and no time limit ended the child."""
        return not self.child.timed_out and self.child.signal is None

    def end(self) -> ChildEnd:
        """Return how the child ended; `supervise` must have waited for its end."""
        child = self.child
        written = _tail(self._folder / "output")
        message: dict[str, Any] = {}
        for facts in read_messages(child.data)[0]:
            message.update(facts)
        return ChildEnd(
            result=None if child.timed_out or child.exhausted else message.get("result"),
            seconds=child.seconds,
            signal=child.signal,
            status=child.status,
            timed_out=child.timed_out,
            stage=message.get("stage"),
            fault=message.get("fault", ""),
            output=read_stack(self._stacks) or written[-_MAX_OUTPUT_CHARACTERS:],
            loaded=tuple(message.get("loaded", ())),
            exhausted=bool(child.exhausted),
            written=written,
            told=message,
        )

    def remove(self) -> None:
        """Kill the child if still running, and remove its folder."""
        self.child.kill()
        shutil.rmtree(self._folder, ignore_errors=True)
        if not self.ended_by_itself:  # a library there may be half-written
            shutil.rmtree(self._compiled, ignore_errors=True)


def _tail(path: Path) -> str:
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _MAX_WRITTEN_BYTES))
            return file.read().decode(errors="replace")
    except OSError:
        return ""


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


def _share_libraries(probes: Sequence[_Probe], folders: Sequence[Path]) -> None:
    """Link the libraries that inductor has compiled for concurrent children into the first folder, then into each."""
    whole = [folder for probe, folder in zip(probes, folders, strict=True) if probe.ended_by_itself]
    pairs = [*((other, folders[0]) for other in folders[1:]), *((folders[0], other) for other in folders[1:])]
    for source, folder in pairs:
        for library in source.glob("??/c*.so") if source in whole else ():
            place = folder / library.parent.name / library.name
            if not os.path.lexists(place):
                with contextlib.suppress(OSError):  # each compiles it for itself then
                    place.parent.mkdir(parents=True, exist_ok=True)
                    os.link(library, place, follow_symlinks=False)


def run_children(
    jobs: Sequence[Job], limits: Limits, scratch: Path, tick: Callable[[], object] = lambda: None
) -> list[ChildEnd]:
    """Run each job in its own child, all at once, and wait for all; call `tick` several times a second.
    An interrupt leaves no child behind."""
    probes: list[_Probe] = []
    folders = [_cache_folder(scratch, number) for number in range(len(jobs))]  # copied before any child writes
    for cached in itertools.product(folders, CACHES_OF_GRAPHS):  # a run finds the graphs that it has compiled itself
        shutil.rmtree(Path(*cached), ignore_errors=True)
    looks = [MemoryWatch()] if limits.memory is None else []
    try:
        for job, compiled in zip(jobs, folders, strict=True):
            with uninterrupted():  # the hooks of fork() would swallow a Ctrl-C; one right after it would lose the child
                probes.append(_Probe(job, limits, scratch, compiled))
        supervise([probe.child for probe in probes], tick, looks)
        kill_orphans()  # which may still be writing one
        _share_libraries(probes, folders)
        return [probe.end() for probe in probes]
    finally:
        for probe in probes:
            probe.remove()
        kill_orphans()


def run_again_if_killed(
    jobs: Sequence[Job],
    limits: Limits,
    scratch: Path,
    tick: Callable[[], object] = lambda: None,
    run: RunJobs | None = None,
) -> list[ChildEnd]:
    """Run jobs as `run_children` does, whose death by SIGKILL is no answer: run such a job again, alone.

    A job that was killed `MAX_TRIES` times is returned as it ended.
    """
    run = run or (lambda jobs, limits, scratch: run_children(jobs, limits, scratch, tick))
    ended = run(jobs, limits, scratch)
    for place, job in enumerate(jobs):
        for _ in range(MAX_TRIES - 1):
            if not ended[place].was_killed:
                break
            (ended[place],) = run([job], limits, scratch)
    return ended
