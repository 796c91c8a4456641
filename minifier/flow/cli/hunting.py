"""The command that hunts."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from minifier.data.case.run_folder import next_place, shown_path
from minifier.data.settings import Settings
from minifier.errors import UsageError
from minifier.flow.cli.console import Console
from minifier.flow.prepare import prepared
from minifier.process.interpreters import Interpreters

FOUND = 1  # the exit code if something fails


def hunt_command(values: dict[str, Any], interpreters: Interpreters) -> int:
    """Hunt, print the first line of the page, and return 0 if nothing fails."""
    folder = _folder(values["out"], values["backend"])
    settings = Settings(timeout=values["timeout"], verify=2, explain=False)
    with Console(values["quiet"]) as console, prepared(settings, console, interpreters) as run:
        from minifier.flow.hunt.exploring import Hunted
        from minifier.flow.hunt.hunt import hunt
        from minifier.flow.hunt.page import first_line
        from minifier.flow.hunt.programs import Wanted
        from minifier.flow.hunt.records import Records

        dtypes = tuple(filter(None, map(str.strip, values["dtypes"].split(","))))
        wanted = Wanted(values["only"], dtypes, values["samples"], values["training"])
        hunted = Hunted(
            values["backend"], values["modules"], values["sources"] or ("ops",), wanted, values["unsupported"]
        )
        records = hunt(hunted, Records(folder), run, values["seconds"])
        console.error(first_line(hunted, records))
        console.error(f"{shown_path(folder)} has report.md")
    return FOUND if records.groups else 0


def _folder(out: Path | None, backend: str) -> Path:
    if out is not None and out.is_dir() and any(out.iterdir()) and not (out / "results.jsonl").exists():
        raise UsageError(f"--out {out} is not empty, and no hunt has written it.")
    return (out or next_place("hunt-" + re.sub(r"\W+", "-", backend))).absolute()
