"""Run torch's own collector of facts about the machine in the background."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from minifier.case.store import write_atomically
from minifier.process.forked_step import die_with_parent, spare

_MAX_WAIT_SECONDS = 20.0  # of the report for the collector
_LOOK = 0.02


class EnvironmentCollector:
    """A child that runs `torch.utils.collect_env`, which starts a dozen programs and may look for GPUs."""

    def __init__(self) -> None:
        self._file = Path(tempfile.mkdtemp(prefix="minify-")) / "environment.txt"
        parent = os.getpid()
        self._pid = os.fork()
        if self._pid == 0:
            _collect(self._file, parent)
        spare(self._pid)
        self._text: str | None = None

    def text(self, tick: Callable[[], object] = lambda: None) -> str:
        """Wait for the collector's text and call `tick` meanwhile. If it fails or is late, return a line about that."""
        if self._text is None:
            until = time.monotonic() + _MAX_WAIT_SECONDS
            while not self._has_ended() and time.monotonic() < until:
                tick()
                time.sleep(_LOOK)
            self._text = "torch.utils.collect_env said nothing"
            if self._has_ended() and self._file.exists():
                self._text = self._file.read_text(encoding="utf-8").strip()
            self.close()
        return self._text

    def _has_ended(self) -> bool:
        try:
            return os.waitpid(self._pid, os.WNOHANG)[0] != 0
        except ChildProcessError:
            return True

    def close(self) -> None:
        """Kill the child if it has not ended, and remove its file, which may be half written."""
        if not self._has_ended():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(self._pid, 0)
        shutil.rmtree(self._file.parent, ignore_errors=True)


def _collect(file: Path, parent: int) -> None:
    """Run the collector in the child and exit."""
    status = 1
    try:
        os.setsid()
        die_with_parent()
        if os.getppid() != parent:
            os._exit(1)
        os.nice(10)
        null = os.open(os.devnull, os.O_RDWR)
        for number in range(3):
            os.dup2(null, number)
        from torch.utils import collect_env

        told: Any = collect_env.get_pretty_env_info()  # type: ignore[no-untyped-call]
        write_atomically(file, told)
        status = 0
    finally:
        os._exit(status)
