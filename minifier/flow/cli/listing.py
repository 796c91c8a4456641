"""`minify backends`, `passes` and `list`: tables, and output folders of earlier runs."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

from minifier.data.case.run_folder import RESULTS
from minifier.data.failure.normalise import printable
from minifier.flow.folders import runs_in
from minifier.flow.known_backends import known_backends
from minifier.reduction.passes.table import TABLE
from minifier.repro.source import passes as of_scripts


def print_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(*heads, box=box.SIMPLE_HEAD, pad_edge=False)
    rows = [[printable(cell, kept="") for cell in row] for row in rows]
    for row in rows:
        table.add_row(*row)
    width = (
        None
        if sys.stdout.isatty()
        else max(120, sum(max(len(r[i]) for r in (heads, *rows)) + 3 for i in range(len(heads))))
    )
    Console(width=width, highlight=False, markup=False).print(table)


def list_passes() -> int:
    """Print the tables of passes."""
    print_table(("pass over a graph", "takes away"), TABLE)
    print_table(("pass over a script", "takes away"), of_scripts.TABLE)
    return 0


def list_backends() -> int:
    """Print every backend that torch.compile finds: name, tags, origin."""
    print_table(("backend", "tags", "from"), known_backends())
    print("Backends that register when their module is imported are not listed before that.")
    return 0


def list_command(folders: Sequence[Path]) -> int:
    """Print the runs, the oldest first."""
    runs = runs_in(folders)
    if not runs:
        print(f"no runs in {', '.join(map(str, folders or [RESULTS]))}")
        return 0
    rows = [(str(run.path), _when(run.path), run.state, run.size, run.failure) for run in runs]
    print_table(("folder", "when", "state", "size", "failure"), rows)
    return 0


def _when(path: Path) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(path.stat().st_mtime))
