"""`minify backends`, `passes`, `list`, `dedupe` and `clean`: tables, and output folders of earlier runs."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

import click

from minifier.data.case.run_folder import RESULTS
from minifier.data.failure.normalise import printable
from minifier.errors import UsageError
from minifier.flow.cli.console import print_line
from minifier.flow.folders import grouped, removable, remove, runs_in
from minifier.flow.known_backends import known_backends
from minifier.process.progress import counted
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
        print(f"no runs in {_said(folders)}")
        return 0
    rows = [(str(run.path), _when(run.path), run.state, run.size, run.failure) for run in runs]
    print_table(("folder", "when", "state", "size", "failure"), rows)
    return 0


def _said(folders: Sequence[Path]) -> str:
    return ", ".join(map(str, folders or [RESULTS]))


def _when(path: Path) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(path.stat().st_mtime))


def dedupe_command(folders: Sequence[Path]) -> int:
    """Print the distinct failures of the runs, each with its runs, the most frequent first."""
    groups = grouped(runs_in(folders))
    if not groups:
        print(f"no finished runs in {_said(folders)}")
    for key, runs in groups:
        print_line(f"{key}  {counted(len(runs), 'run')}: {runs[0].failure}")
        for run in runs:
            print_line(f"    {run.path}  {run.size or run.state}")
    return 0


def clean_command(folders: Sequence[Path], every: bool, agreed: bool) -> int:
    """Remove the runs without a repro, or all, after a question; a run that goes on stays."""
    chosen = removable(runs_in(folders), every)
    if not chosen:
        print("nothing to remove")
        return 0
    for run in chosen:
        print_line(f"{run.path}  {run.state}")
    if agreed or _agrees(len(chosen)):
        remove(chosen)
    return 0


def _agrees(count: int) -> bool:
    if not sys.stdin.isatty():
        raise UsageError("nothing was removed: without a terminal to ask on, --yes is needed.")
    return click.confirm(f"remove {'these' if count != 1 else 'this'}?")
