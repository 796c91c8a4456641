"""`minify report`: write the reports of a finished run again."""

from __future__ import annotations

import sys
from pathlib import Path

from minifier.errors import ExitCode, UsageError
from minifier.workflow.machine import import_torch


def report_command(folder: Path, include_data: bool | None) -> int:
    """Write report.md, report.html and bundle.zip of an output folder again; print their paths."""
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder: give the output folder of a run.")
    import_torch()
    from minifier.report.finished import read_finished, write_reports

    outcome, included = read_finished(folder)
    bundle = write_reports(folder, outcome, included if include_data is None else include_data)
    for name, size in bundle.left_out:
        print(f"minify: {name} ({size} bytes) is too large for {bundle.path.name}", file=sys.stderr)
    if include_data and (outcome.repro is None or outcome.repro.tensors is None):
        print("minify: the repro reads no values from a file: there is nothing to include", file=sys.stderr)
    elif outcome.repro is not None and outcome.repro.tensors is not None:
        held = "holds" if (included if include_data is None else include_data) else "does not hold"
        print(f"minify: {bundle.path.name} {held} the values that the repro reads", file=sys.stderr)
    for name in ("report.md", "report.html", "bundle.zip"):
        print(folder / name)
    return int(ExitCode.REDUCED)
