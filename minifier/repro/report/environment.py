"""Run torch's own collector of facts about the machine in the background."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from minifier.data.case.store import write_atomically
from minifier.process.child import Child, supervise
from minifier.process.descendants import spare
from minifier.process.interrupts import uninterrupted

_MAX_WAIT_SECONDS = 20.0  # of the report for the collector


class EnvironmentCollector:
    """A child that runs `torch.utils.collect_env`, which starts a dozen programs and may look for GPUs."""

    def __init__(self) -> None:
        self._file = Path(tempfile.mkdtemp(prefix="minify-")) / "environment.txt"
        with uninterrupted() as mask:
            self._child = Child.forked(lambda: _collect(self._file, mask))
            spare(self._child.pid)
        self._text: str | None = None

    def text(self, tick: Callable[[], object] = lambda: None) -> str:
        """Wait for the collector's text and call `tick` meanwhile. Return a note if the collector fails or is late."""
        if self._text is None:
            self._child.limit(_MAX_WAIT_SECONDS)
            supervise([self._child], tick)
            self._text = "torch.utils.collect_env said nothing"
            if self._file.exists():
                self._text = self._file.read_text(encoding="utf-8").strip()
            self.close()
        return self._text

    def close(self) -> None:
        """Kill the child if still running, and remove its folder."""
        self._child.kill()
        shutil.rmtree(self._file.parent, ignore_errors=True)


def _collect(file: Path, mask: set[int | signal.Signals]) -> NoReturn:
    """Run the collector in the child, with this signal mask, and exit."""
    status = 1
    try:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        os.setsid()
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
