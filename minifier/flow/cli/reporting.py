"""`minify report`: write the reports of a finished run again."""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from minifier.data.case.run_folder import typed_path
from minifier.data.case.store import write_atomically
from minifier.errors import ExitCode, UsageError
from minifier.flow.cli.console import print_error, print_line
from minifier.flow.prepare import import_torch
from minifier.repro.report.last_block import last_block, lines_of

if TYPE_CHECKING:  # importing it takes long
    from minifier.repro.report.outcome import Outcome
    from minifier.repro.report.write_reports import Consent


def finished_run(folder: Path) -> tuple[Outcome, Consent]:
    """Return the finished run of an output folder. Does not import torch."""
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder: give the output folder of a run.")
    from minifier.repro.report.write_reports import read_finished

    return read_finished(folder)


def show_command(folder: Path) -> int:
    """Print the last lines of a finished run again, to standard output."""
    outcome, _ = finished_run(folder)
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    for line, _ in lines_of(last_block(outcome), width):
        print_line(line)
    return int(ExitCode.REDUCED)


def report_command(
    folder: Path, include_data: bool | None, bundle_private: bool | None, show_private: bool, github: bool
) -> int:
    """Write result.json, report.md, report.html and bundle.zip of an output folder again; print the paths.

    With `github`, also write the body of an issue, and print the command that files the issue.
    """
    outcome, consent = finished_run(folder)
    import_torch()
    from minifier.repro.report.markdown import ISSUE
    from minifier.repro.report.write_reports import BUNDLE, said_size, write_reports

    if include_data is not None:
        consent = replace(consent, data=include_data)
    if bundle_private is not None:
        consent = replace(consent, constants=bundle_private)
    written = write_reports(folder, outcome, consent, github)
    if written.entries:
        _say(f"{BUNDLE} holds {', '.join(f'{name} ({said_size(size)})' for name, size in written.entries)}")
    for name, size in written.left_out:
        _say(f"{name} ({size} bytes) is too large for {BUNDLE}")
    if include_data and (outcome.repro is None or not outcome.repro.beside):
        _say("the repro reads no file: there is nothing to include")
    elif outcome.repro is not None and outcome.repro.beside:
        files = " and ".join(outcome.repro.beside)
        _say(f"{BUNDLE} {'holds' if consent.data else 'does not hold'} {files}, which the repro reads")
    if written.constants:
        where = ", ".join(map(str, written.constants))
        _say(f"the failure needs constants of repro.py that look like secrets: {where}")
    if written.bundle is None:
        _say(f"there is no {BUNDLE}: `minify report {typed_path(folder)} --bundle-private` writes it all the same")
    if show_private:
        for removal in written.removals:
            print_line(f"{removal.file}: {removal.kind}, {removal.head}...")
        if not written.removals:
            print("nothing was taken out")
    for path in (folder / "report.md", folder / "report.html", written.bundle):
        if path is not None:
            print(path)
    if written.issue is not None:
        write_atomically(folder / ISSUE, written.issue.body)
        if not written.issue.repository:
            _say("the repository of the issue is not known: add --repo OWNER/NAME, or gh takes that of this folder")
        print(written.issue.command(folder / ISSUE))
    return int(ExitCode.REDUCED)


def _say(text: str) -> None:
    print_error(f"minify: {text}")
