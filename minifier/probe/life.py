"""Code that runs inside a child process: set up the process, run the job, report to the parent."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import resource
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from minifier.process.interrupts import INTERRUPTING
from minifier.process.memory import limit_data
from minifier.process.stacks import calls_user_code, stack_file

Job = Callable[[], dict[str, Any]]
STACKS = "stacks"  # the file with a dying child's stacks
AHEAD = "ahead"  # reported in place of a stage, during the calls ahead of the failing call


@dataclass(frozen=True, slots=True)
class Limits:
    """For each child: wall seconds, and bytes of memory more than the parent has.
    With None, all children together may use most of the free memory."""

    seconds: float
    memory: int | None = None


_parent_pipe: int | None = None


def tell(**facts: Any) -> None:
    """Report facts from a child to its parent, which has them even if the child dies at its next step."""
    if _parent_pipe is not None:
        _write(_parent_pipe, json.dumps(facts).encode() + b"\n")


def fall_silent() -> None:
    """Report nothing from now on, in a fork of a child: its facts would be taken for the child's."""
    global _parent_pipe
    _parent_pipe = None


@contextlib.contextmanager
def imports_told() -> Iterator[None]:
    """Report the modules of torch imported in the block, so that the parent can import them for later children."""
    before = set(sys.modules)
    try:
        yield
    finally:
        tell(loaded=[name for name in sys.modules if name.startswith("torch.") and name not in before])


@calls_user_code
def run_job(job: Job, limits: Limits, folder: Path, compiled: Path, headers: Path | None, pipe: int) -> NoReturn:
    """Run the job in a new child, and exit. `folder` is the child's own, `compiled` the cache of compiled code.
    `headers` are inductor's precompiled headers; `pipe` leads to the parent."""
    global _parent_pipe
    _parent_pipe = pipe
    gc.freeze()  # collections here do not touch the pages that are shared with the parent
    message: dict[str, Any] = {}
    try:
        os.setsid()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, INTERRUPTING)
        _isolate(folder, compiled, headers)
        stack_file(folder / STACKS)
        _limit(limits)
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


def _write(pipe: int, data: bytes) -> None:
    while data:
        data = data[os.write(pipe, data) :]


def _isolate(folder: Path, compiled: Path, headers: Path | None) -> None:
    """Detach the child from the terminal, and keep its temporary files in its own folder."""
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


def _limit(limits: Limits) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if limits.memory is not None:
        limit_data(limits.memory)
