"""Reduce a Case, or run a program again, in a process of its own."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from minifier.data.case.run_folder import RESULTS, RunFolder, next_place
from minifier.process.child import end

LOG = "minify.log"


def start_reducing(out: Path, options: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start `minify reduce` on this process's output folder, in a new session; its standard error goes to the log."""
    command = [sys.executable, "-m", "minifier", "reduce", "--trust", str(out), *options]
    with (out / LOG).open("w") as log:
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log, start_new_session=True
        )


def wait_for_repro(process: subprocess.Popen[bytes], out: Path) -> Path | None:
    """Wait for the reduction; return the path of its repro, or None. End the process if interrupted."""
    try:
        process.wait()
    except BaseException:
        end(process)
        raise
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
