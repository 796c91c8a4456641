"""`minify backends`, `passes`, `list` and `doctor`: what there is, in tables."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from minifier.data.case.run_folder import RESULTS
from minifier.data.failure.normalise import printable
from minifier.errors import ExitCode
from minifier.flow.cli.console import print_line
from minifier.flow.folders import runs_in
from minifier.flow.known_backends import known_backends
from minifier.reduction.passes.table import TABLE
from minifier.repro.report.last_block import ResultRow, lines_of
from minifier.repro.source import passes as of_scripts

_GAP = 3  # columns between those of a table
_MAX_COLUMNS = 10_000  # of a table without a terminal, which takes what it needs


def print_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(*heads, box=box.SIMPLE_HEAD, pad_edge=False)
    for row in rows:
        table.add_row(*(printable(cell, kept="") for cell in row))
    width = None if sys.stdout.isatty() else _MAX_COLUMNS
    Console(width=width, highlight=False, markup=False).print(table)


def list_passes() -> None:
    """Print the tables of passes."""
    print_table(("pass over a graph", "takes away"), TABLE)
    print_table(("pass over a script", "takes away"), of_scripts.TABLE)


def list_backends() -> None:
    """Print every backend that torch.compile finds: name, tags, origin."""
    print_table(("backend", "tags", "from"), known_backends())
    print("Backends that register when their module is imported are not listed before that.")


def list_sources(sources: Sequence[str]) -> None:
    """Print the sources of a hunt's programs; of the folders among these sources, if there are any, the scripts."""
    from minifier.flow.hunt.programs import ProgramFilter  # which imports torch
    from minifier.flow.hunt.scripts import SCRIPTS
    from minifier.flow.hunt.sources import known_sources, source

    if folders := [name for name in sources if name.startswith(f"{SCRIPTS} ")]:
        found = [program for name in folders for program in source(name)(ProgramFilter())]
        print_table(("script", "compiled by"), [(str(each.script), each.variant or "--backend") for each in found])
        return
    print_table(("source", "programs"), known_sources())
    print("MODULE:NAME, a function of yours that yields (name, callable, args, kwargs), is a source too.")


def list_command(folders: Sequence[Path]) -> None:
    """Print the runs, the oldest first: as a table, or where the terminal is too narrow, each in lines of its own."""
    runs = runs_in(folders)
    if not runs:
        print(f"no runs in {', '.join(map(str, folders or [RESULTS]))}")
        return
    rows = [(str(run.path), _when(run.path), run.state, run.size, run.failure) for run in runs]
    columns = shutil.get_terminal_size().columns
    if not sys.stdout.isatty() or sum(max(map(len, cells)) + _GAP for cells in zip(*rows, strict=True)) <= columns:
        print_table(("folder", "when", "state", "size", "failure"), rows)
        return
    for folder, *facts in rows:
        print_line(folder)
        for line, _ in lines_of([ResultRow("", ", ".join(filter(None, facts)))], columns):
            print_line(line)


def _when(path: Path) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(path.stat().st_mtime))


def print_findings(as_json: bool) -> int:
    """Print the findings; return the exit code: 2 if nothing works here."""
    from minifier.flow.doctor import examine  # imports torch

    findings = examine()
    status = int(ExitCode.USAGE if findings.problem else ExitCode.REDUCED)
    if as_json:
        print(json.dumps({"version": 1, **asdict(findings)}))
        return status
    facts = {
        "torch": f"{findings.torch} ({findings.tested})",
        "Python": findings.python,
        "backends": f"{len(findings.backends)} found; `minify backends` lists them",
        **findings.extras,
        **findings.limits,
    }
    width = max(map(len, facts)) + 2
    for name, fact in facts.items():
        print(f"{name:{width}}{fact}")
    lost = [row for row in findings.interfaces if row.loses]
    if lost:
        print_table(("private interface of torch", "state", "lost"), [(r.interface, r.state, r.loses) for r in lost])
    works = len(findings.interfaces) - len(lost)
    count = f"{works} of the {len(findings.interfaces)} names of torch that the tool relies on are here."
    print(findings.problem or count)
    return status
