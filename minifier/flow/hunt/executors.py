"""Where the programs of a hunt are tried and its failures reduced: on this machine, or elsewhere (cluster.py)."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from minifier.errors import ToolFailed
from minifier.flow.attempt import Run
from minifier.flow.embed.reducing import start_reducing
from minifier.flow.hunt.exploring import HuntOptions, explore
from minifier.flow.hunt.page import write_pages
from minifier.flow.hunt.records import Records
from minifier.process.child import end
from minifier.process.machine import cores
from minifier.process.progress import ProgressPipe, run_for_result

_SECONDS_BETWEEN_PAGES = 30.0


class Reduction(Protocol):
    """A reduction that was begun."""

    def poll(self) -> int | None:
        """Return None while it runs."""

    def end(self) -> None:
        """Give it up."""


class Executor(Protocol):
    """Tries programs and reduces failures, so many at once."""

    slots: int

    def explore(self, hunted: HuntOptions, folder: Path, until: float) -> bool:
        """Try the programs that have no line in the folder yet, until the clock says `until`, and write their lines.

        Return whether all have one then. Raises KeyboardInterrupt after Ctrl-C, and UsageError for a backend or a
        source that cannot be imported.
        """

    def start_reducing(self, folder: Path, options: Sequence[str]) -> Reduction:
        """Begin the reduction of a failure, which writes into its folder."""


class LocalExecutor:
    """Explores in a forked process: imports of the user's, and of torch's tests, stay in it."""

    def __init__(self, run: Run) -> None:
        self.slots, self._run = run.settings.workers or cores(), run

    def explore(self, hunted: HuntOptions, folder: Path, until: float) -> bool:
        """Explore, as `Executor` says."""

        def work(channel: ProgressPipe) -> bool:
            records = Records(folder)
            try:
                return explore(hunted, records, self._run.settings, until, channel, now_and_then(hunted, records))
            except KeyboardInterrupt:
                return False

        is_complete, ended = run_for_result(work, self._run.ui)
        if ended.interrupted:
            raise KeyboardInterrupt
        if is_complete is None:
            raise ToolFailed(f"the process that tries programs ended: {ended.described}")
        return is_complete

    def start_reducing(self, folder: Path, options: Sequence[str]) -> Reduction:
        """Begin a reduction in a process of its own."""
        return _LocalReduction(start_reducing(folder, options))


class _LocalReduction:
    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process, self.poll = process, process.poll

    def end(self) -> None:
        end(self._process)


def now_and_then(
    hunted: HuntOptions, records: Records, now: Callable[[], float] = time.monotonic
) -> Callable[[], None]:
    """Return a function that writes the pages if that was long ago."""
    written = now()

    def write() -> None:
        nonlocal written
        if now() - written > _SECONDS_BETWEEN_PAGES:
            write_pages(hunted, records)
            written = now()

    return write
