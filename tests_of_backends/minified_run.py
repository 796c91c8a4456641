"""A script under `minify run`, in the environment of a third party's backend."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any


def minified(text: str, folder: Path) -> tuple[dict[str, Any], str]:
    """(result.json, the repro) of a script of this text."""
    (folder / "failing.py").write_text(text)
    out = folder / "out"
    done = subprocess.run(
        [sys.executable, "-m", "minifier", "run", "--out", str(out), "failing.py"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=450,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads((out / "result.json").read_text()), (out / "repro.py").read_text()
