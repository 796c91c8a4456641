"""Run `minify` in a world of its own, and see what it leaves behind: processes, files, shared memory."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from clock import LIMIT_SECONDS, wait_until
from vocabulary import Project, run_alone

_MARK = "MINIFY_TEST_RUN"


@dataclass(frozen=True)
class Ended:
    """How a command ended, and everything that it left behind, in words."""

    code: int
    out: bytes
    err: str
    left: tuple[str, ...]


@dataclass
class World:
    """A command's surroundings: its project, and a mark in the environment that all its processes inherit."""

    project: Project
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)

    def __post_init__(self) -> None:
        self._shared = _shared_memory()

    def start(self, *arguments: str | Path, **options: Any) -> subprocess.Popen[bytes]:
        """Start `python -m minifier ARGUMENTS`; `options` go to Popen, with `environment` for further variables."""
        environment = self.project.environment(**{_MARK: self.mark, **options.pop("environment", {})})
        prefix = options.pop("prefix", ())
        options = {"stdin": subprocess.DEVNULL, "cwd": self.project.folder, "start_new_session": True, **options}
        with self._output("out").open("wb") as out, self._output("err").open("wb") as err:
            return subprocess.Popen(
                [*prefix, sys.executable, "-m", "minifier", *map(str, arguments)],
                env={name: value for name, value in environment.items() if value is not None},
                **{"stdout": out, "stderr": err, **options},
            )

    def _output(self, name: str) -> Path:
        return self.project.root / f"{name}.txt"

    @property
    def said(self) -> str:
        """What the command has written to standard error so far."""
        return self._output("err").read_text(errors="replace")

    def wait_for(
        self, is_so: Callable[[], bool], process: subprocess.Popen[bytes], seconds: float = LIMIT_SECONDS
    ) -> None:
        """Wait until something is so. Fails if the command ends before, or after so many seconds."""
        wait_until(is_so, lambda: self.said, seconds, process)

    def finish(self, process: subprocess.Popen[bytes], timeout: float = 150) -> Ended:
        """Wait for the end of the command, and look at what it left."""
        try:
            code = process.wait(timeout=timeout)
            left = self.left()
        finally:
            for pid in self.processes():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        return Ended(code, self._output("out").read_bytes(), self.said, left)

    def run(self, *arguments: str | Path, timeout: float = 150, **options: Any) -> Ended:
        """Run `python -m minifier ARGUMENTS` to its end."""
        return self.finish(self.start(*arguments, **options), timeout)

    def left(self) -> tuple[str, ...]:
        """Return what is left now of commands that have ended, in words."""
        processes = tuple(self._remaining_processes())
        with contextlib.suppress(AssertionError):  # of another program, which makes its own at this moment
            wait_until(lambda: not _shared_memory() - self._shared)
        return (*processes, *self._remaining_files(), *(_shared_memory() - self._shared))

    def processes(self) -> list[int]:
        """Return the processes that carry the mark, or work in the project's folders."""
        mark, places = f"{_MARK}={self.mark}".encode(), str(self.project.root)
        found = []
        for place in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if mark in (place / "environ").read_bytes() or str((place / "cwd").readlink()).startswith(places):
                    found.append(int(place.name))
        return [pid for pid in found if pid != os.getpid()]

    def _remaining_processes(self) -> Iterator[str]:
        with contextlib.suppress(AssertionError):  # a killed process may take a while until it is gone
            wait_until(lambda: not self.processes())
        for pid in self.processes():
            with contextlib.suppress(OSError):
                command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                yield f"process {pid}: {command[:100]}"

    def _remaining_files(self) -> Sequence[str]:
        return [f"temporary file {path.name}" for path in self.project.temporary.glob("*") if _is_of_the_tool(path)]


def _is_of_the_tool(path: Path) -> bool:
    return not path.name.startswith(("torchinductor_", "user-"))


def _shared_memory() -> set[str]:
    """Return the shared memory that no process has mapped or open: other programs on this machine have some as well.

    A folder there is none, nor is what a browser hides there while it starts.
    """
    names = {path.name for path in Path("/dev/shm").iterdir() if path.is_file() and not path.name.startswith(".")}
    for place in Path("/proc").glob("[0-9]*") if names else ():
        with contextlib.suppress(OSError):
            used = (place / "maps").read_text() + " ".join(os.readlink(file) for file in (place / "fd").iterdir())
            names -= {name for name in names if f"/dev/shm/{name}" in used}
    return {f"shared memory {name}" for name in names}


def fails_alone(world: World) -> bool:
    """Whether the repro, run alone, fails with the backend's error."""
    done = run_alone(world.project.out / "repro.py", world.project.root / f"alone-{uuid.uuid4().hex}")
    return done.returncode != 0 and "no lowering for tanh" in done.stderr
