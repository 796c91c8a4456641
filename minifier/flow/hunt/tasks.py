"""The tasks of a hunt on a Ray cluster. They run in Ray's processes, which have threads: each starts its own process.

Imports neither torch nor Ray.
"""

from __future__ import annotations

import functools
import io
import os
import pickle
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from minifier.errors import ToolFailed
from minifier.flow.embed.reducing import start_reducing, wait_for_repro

if TYPE_CHECKING:
    from minifier.flow.hunt.behind import KnownFaults
    from minifier.flow.hunt.records import ProgramResult

SERVER = "minifier.flow.hunt.server"


@dataclass(frozen=True, slots=True)
class Batch:
    """Programs to try: so many of a source, from a place in it on, up to a time of `time.time`.

    `broken` is of the filter. With `faults`, the programs of those instead, with their ops in eager mode.
    """

    source: str
    start: int
    count: int
    until: float
    broken: frozenset[tuple[str, str]]
    faults: KnownFaults | None = None

    def precedes(self, other: Batch) -> bool:
        """Whether the other one is of the same programs, and further on."""
        return (self.source, self.faults) == (other.source, other.faults) and self.start + self.count <= other.start


@dataclass(frozen=True, slots=True)
class BatchAnswer:
    """What came of a batch: a line for each program, and for each group of failures among them its packed folder.

    `is_last`: the source has no more programs. `refused` is why nothing can be tried.
    """

    lines: tuple[ProgramResult, ...] = ()
    failures: Mapping[int, bytes] = field(default_factory=dict)
    is_last: bool = False
    said: tuple[str, ...] = ()
    refused: str = ""


def packed(folder: Path) -> bytes:
    """Return a folder as an archive."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        archive.add(folder, ".")
    return data.getvalue()


def unpack(data: bytes, folder: Path) -> None:
    """Write the files of an archive into the folder."""
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        archive.extractall(folder, filter="data")


@dataclass(frozen=True, slots=True)
class Setup:
    """What the server of a hunt's programs needs ahead of the first: a pickle, the folder to be in, variables."""

    asked: bytes
    folder: str
    variables: tuple[tuple[str, str], ...]

    def environment(self) -> Mapping[str, str]:
        """Return the environment of a process. Ray sets the number of threads for its own, as nobody asked."""
        own = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
        return {**own, **dict(self.variables)}

    @property
    def place(self) -> str | None:
        """The folder, if this machine has it."""
        return self.folder if os.path.isdir(self.folder) else None


@functools.lru_cache(maxsize=1)
def _server(setup: Setup) -> subprocess.Popen[bytes]:
    """Return the server of this process of Ray's, which ends with it: its standard input does then."""
    command, pipe = [sys.executable, "-m", SERVER], subprocess.PIPE
    server = subprocess.Popen(command, stdin=pipe, stdout=pipe, env=setup.environment(), cwd=setup.place)
    _send(server, setup.asked)
    return server


def _send(server: subprocess.Popen[bytes], data: bytes) -> None:
    assert server.stdin is not None
    server.stdin.write(data)
    server.stdin.flush()


def try_batch(setup: Setup, batch: bytes) -> Any:
    """Return the server's answer to a batch; both are pickled. Raises ToolFailed if it ends: Ray tries that again."""
    server = _server(setup)
    with tempfile.TemporaryDirectory(prefix="minify-hunt-") as scratch:
        try:
            _send(server, pickle.dumps((batch, scratch)))
            assert server.stdout is not None
            return pickle.load(server.stdout)
        except (OSError, EOFError, pickle.UnpicklingError) as error:
            server.kill()
            _server.cache_clear()
            raise ToolFailed(f"the process that tries programs ended with status {server.wait()}") from error


def reduce_failure(setup: Setup, failure: bytes, options: Sequence[str]) -> bytes:
    """Reduce the Case of a failure's folder, and return the folder."""
    with tempfile.TemporaryDirectory(prefix="minify-hunt-") as scratch:
        folder = Path(scratch) / "failure"
        unpack(failure, folder)
        wait_for_repro(start_reducing(folder, options, env=setup.environment(), cwd=setup.place), folder)
        return packed(folder)
