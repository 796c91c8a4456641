"""Reduce a Case in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

LOG = "minify.log"


def start_reducing(out: Path, options: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start `minify reduce` on an output folder, in a new session; its standard error goes to the log."""
    command = [sys.executable, "-m", "minifier", "reduce", str(out), *options]
    with (out / LOG).open("w") as log:
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log, start_new_session=True
        )


def wait_for_repro(process: subprocess.Popen[bytes], out: Path) -> Path | None:
    """Wait for the reduction; return the path of its repro, or None. Terminate the process if interrupted."""
    try:
        process.wait()
    except BaseException:
        process.terminate()
        raise
    repro = out / "repro.py"
    return repro if repro.exists() else None
