"""The reduction of a Case in another process, beside the user's."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

LOG = "minify.log"


def start_reducing(out: Path, options: Sequence[str]) -> subprocess.Popen[bytes]:
    """`minify reduce` of an output folder, in a session of its own; what it says goes into its log."""
    command = [sys.executable, "-m", "minifier", "reduce", str(out), *options]
    with (out / LOG).open("w") as log:
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log, start_new_session=True
        )


def ended(process: subprocess.Popen[bytes], out: Path) -> Path | None:
    """Waits for its end; gives the repro, if there is one. If the user will not wait, it is ended too."""
    try:
        process.wait()
    except BaseException:
        process.terminate()
        raise
    repro = out / "repro.py"
    return repro if repro.exists() else None
