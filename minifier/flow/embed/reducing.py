"""Reduce a Case, or run a program again, in a process of its own; show meanwhile what it does."""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TextIO

from minifier.data.case.run_folder import RESULTS, RunFolder, next_place
from minifier.data.failure.normalise import printable
from minifier.process.child import end
from minifier.torch_side.fx.script_objects import notebook_shell

LOG = "minify.log"
_SECONDS_BETWEEN_LOOKS = 0.5


class StatusLine:
    """Says what another process does: in one line of a terminal or notebook, erased at the end, or else in many lines.

    Writes to standard error, also if nobody reads that any more: the failure matters more.
    """

    def __init__(self, line: str, to: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._to: TextIO = to or sys.stderr or open(os.devnull, "w")  # noqa: SIM115
        self._clock, self._began, self._line = clock, clock(), ""
        self._handle: Any = None
        if hasattr(notebook_shell(), "kernel"):  # not IPython in a terminal
            display = importlib.import_module("IPython.display").display
            self._handle = display({"text/plain": ""}, raw=True, display_id=True)
        self.show(line)

    def show(self, line: str) -> None:
        """Replace the line, with the seconds so far; where no line can be replaced, print it if it is new."""
        is_new, self._line = line != self._line, line
        self._draw(f"[{self._clock() - self._began:.0f} s] {line}", line if is_new else None)

    def show_last_of(self, log: Path) -> None:
        """Show the last line that minify wrote to the log; without one, the line so far."""
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.exists() else []
        self.show(next((line for line in reversed(lines) if line.startswith("minify: ")), self._line))

    def tick(self) -> None:
        """Count the seconds."""
        self.show(self._line)

    def __enter__(self) -> StatusLine:
        return self

    def __exit__(self, *_: object) -> None:
        """Erase the line."""
        self._draw("", None)

    def _draw(self, text: str, appended: str | None) -> None:
        if self._handle is not None:
            self._handle.update({"text/plain": printable(text)}, raw=True)
            return
        with contextlib.suppress(OSError, ValueError):  # nobody reads it, or it is closed
            if self._to.isatty():
                width = (os.get_terminal_size(self._to.fileno()).columns or 80) - 1  # the last column would wrap
                self._to.write(f"\r\x1b[2K{printable(text, kept='')[:width]}")
            elif appended is not None:
                self._to.write(f"{printable(appended, kept='')}\n")
            self._to.flush()


def wait_for(process: subprocess.Popen[Any], tick: Callable[[], None]) -> None:
    """Wait for the end of the process, and call `tick` meanwhile. End the process if interrupted, in a notebook too."""
    try:
        while process.poll() is None:
            tick()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_SECONDS_BETWEEN_LOOKS)
    except BaseException:
        end(process)
        raise


def start_reducing(out: Path, options: Sequence[str], **process: Any) -> subprocess.Popen[bytes]:
    """Start `minify reduce` on this process's output folder, in a new session; its standard error goes to the log.

    `process` is for Popen.
    """
    command, nothing = [sys.executable, "-m", "minifier", "reduce", "--trust", str(out), *options], subprocess.DEVNULL
    with (out / LOG).open("w") as log:
        return subprocess.Popen(command, stdin=nothing, stdout=nothing, stderr=log, start_new_session=True, **process)


def wait_for_repro(process: subprocess.Popen[bytes], out: Path, status: StatusLine | None = None) -> Path | None:
    """Wait for the reduction, as `wait_for` does; return the path of its repro, or None."""
    wait_for(process, lambda: status.show_last_of(out / LOG) if status is not None else None)
    return _repro_in(out)


def run_again(out: Path, options: Sequence[str], command: Sequence[str]) -> Path | None:
    """Run `minify run` on a program, with `out` as its output folder; return the path of the repro, or None.

    Its standard error goes to the log in `out`.
    """
    arguments = [sys.executable, "-m", "minifier", "run", "--out", str(out), *options, *command]
    ended = subprocess.run(arguments, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    out.mkdir(parents=True, exist_ok=True)
    (out / LOG).write_text(ended.stderr, encoding="utf-8")
    return _repro_in(out)


def place_for_test(name: str, root: Path) -> Path:
    """Return a new output folder for the test of this id, below the project's folder `root`."""
    return next_place(re.sub(r"\W+", "-", name).strip("-"), root / RESULTS)


def _repro_in(out: Path) -> Path | None:
    repro = RunFolder(out).repro
    return repro if repro.exists() else None
