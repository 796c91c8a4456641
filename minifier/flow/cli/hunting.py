"""The command that hunts."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from minifier.data.case.run_folder import shown_path
from minifier.data.settings import Settings
from minifier.errors import ExitCode, UsageError
from minifier.flow.check_program import check_pattern
from minifier.flow.cli.console import Console
from minifier.flow.folders import choose_folder
from minifier.flow.prepare import prepared
from minifier.process.interpreters import Interpreters
from minifier.process.progress import counted

if TYPE_CHECKING:
    from minifier.flow.attempt import Run
    from minifier.flow.hunt.executors import Executor

FOUND = 1  # the exit code if something fails


def hunt_command(values: dict[str, Any], interpreters: Interpreters) -> int:
    """Hunt, print the first line of the page, and return 0 if nothing fails."""
    known_file = values["known"]
    if known_file is None and (values["write_known"] or values["strict"]):
        raise UsageError("--write-known and --strict are about the file of --known: name it.")
    for option in ("only", "unsupported"):
        check_pattern(f"--{option}", values[option])
    folder = _folder(values["out"], values["backend"])
    settings = Settings(timeout=values["timeout"], workers=values["workers"], verify=1, explain=False)
    with Console(values["quiet"]) as console, prepared(settings, console, interpreters) as run:
        from minifier.flow.hunt.exploring import HuntOptions
        from minifier.flow.hunt.hunt import hunt
        from minifier.flow.hunt.known import gone, new_failures, read_known, write_known
        from minifier.flow.hunt.page import REPORT, first_line
        from minifier.flow.hunt.programs import ProgramFilter
        from minifier.flow.hunt.records import Records
        from minifier.flow.hunt.summary import distinct

        dtypes = tuple(filter(None, map(str.strip, values["dtypes"].split(","))))
        if not dtypes:
            raise UsageError("--dtypes names none: give float32, say.")
        wanted = ProgramFilter(values["only"], dtypes, values["samples"], values["training"], values["dynamic"])
        sources = values["sources"] or ("ops",)
        hunted = HuntOptions(values["backend"], values["modules"], sources, wanted, values["unsupported"])
        known = read_known(known_file, values["write_known"]) if known_file is not None else {}
        with _executor(values["cluster"], run) as executor:
            records = hunt(hunted, Records(folder), run, executor, values["seconds"])
        failures = distinct(records)
        new, missing = new_failures(records, failures, known), gone(records, failures, known)
        if values["write_known"]:
            write_known(known_file, {key: known[key] for key in known if key not in missing} | new)
        console.error(first_line(hunted, records, failures))
        for key in missing:
            console.error(f"a known failure is gone: {known[key].what} ({key})")
        if known:
            console.error(f"{counted(len(new), 'failure')} not known{':' if new else ''}")
            for entry in new.values():
                console.error(f"  {entry.what}")
        console.error(f"{shown_path(folder)} has report.md and index.html")
        if page := os.environ.get("GITHUB_STEP_SUMMARY"):  # Markdown on the page of a job
            with open(page, "a", encoding="utf-8") as step:
                step.write((folder / REPORT).read_text(encoding="utf-8"))
    if run.interrupted.is_set():
        return int(ExitCode.INTERRUPTED)
    return FOUND if new or (missing and values["strict"]) else 0


@contextlib.contextmanager
def _executor(cluster: str | None, run: Run) -> Iterator[Executor]:
    from minifier.flow.hunt.cluster import connected
    from minifier.flow.hunt.executors import LocalExecutor

    local = contextlib.nullcontext(LocalExecutor(run))
    with local if cluster is None else connected(cluster, run.settings, run.ui) as executor:
        yield executor


def _folder(out: Path | None, backend: str) -> Path:
    """Return the output folder, which may have a hunt that goes on. Raises UsageError as `choose_folder` does."""
    if out is not None and (out / "hunt.json").exists():
        return out.absolute()
    return choose_folder(out, "hunt-" + re.sub(r"\W+", "-", backend)).path
