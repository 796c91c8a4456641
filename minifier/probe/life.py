"""The life of a probe's child, from the inside."""

from __future__ import annotations

import contextlib
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
from typing import Any

from minifier.process.memory import limit_data
from minifier.process.stacks import calls_user_code, stack_file
from minifier.process.steps import as_before_the_tool, die_with_parent

Job = Callable[[], dict[str, Any]]
STACKS = "stacks"  # the file with a dying child's stacks


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


@calls_user_code
def live(job: Job, limits: Limits, folder: Path, compiled: Path, headers: Path | None, into: int) -> None:
    """It never returns. `folder` is the child's own, `compiled` where what others compiled is, `headers` what
    inductor has; into the pipe `into` goes what it tells."""
    global _told_to
    _told_to = into
    message: dict[str, Any] = {}
    try:
        os.setsid()
        die_with_parent()
        as_before_the_tool()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        _quiet(folder, compiled, headers)
        stack_file(folder / STACKS)
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


def _quiet(folder: Path, compiled: Path, headers: Path | None) -> None:
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
        os.environ[variable] = str(compiled)
    os.chdir(work)


def _limit(limits: Limits) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if limits.memory is not None:
        limit_data(limits.memory)
