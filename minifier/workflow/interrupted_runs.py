"""Find the output folder of an interrupted run of the same, unchanged script."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from minifier.capturing.script import Program
from minifier.case.store import CASE, RESULT, write_atomically
from minifier.errors import MinifyError
from minifier.process.locks import hold, is_held
from minifier.process.progress import Ui
from minifier.workflow.run_folder import RESULTS

_RUN_FILE = "run.json"


@dataclass(frozen=True, slots=True)
class Asked:
    """The program to reduce, and the number of the failing graph, if named."""

    program: Program
    graph: int | None = None


def note_run(place: Path, asked: Asked) -> None:
    """Record the program and the graph in the output folder, and lock the folder."""
    place.mkdir(parents=True, exist_ok=True)
    write_atomically(place / _RUN_FILE, json.dumps(_record(asked), indent=1) + "\n")
    lock_run(place)


def lock_run(place: Path) -> None:
    """Lock the run folder until this process ends, so that no other process takes the run for interrupted."""
    if (place / _RUN_FILE).exists():
        hold(place / _RUN_FILE)


def _interrupted_run(asked: Asked, folders: Sequence[Path]) -> Path | None:
    """Return the latest of the folders in which this very reduction began and did not end, or None."""
    record = _record(asked)
    interrupted = [folder for folder in folders if _can_go_on(folder) and _read(folder / _RUN_FILE) == record]
    return max(interrupted, key=lambda folder: (folder / _RUN_FILE).stat().st_mtime, default=None)


def asked_there(place: Path) -> Asked | None:
    """Return the program and graph recorded in an output folder, or None if the script has changed."""
    record = _read(place / _RUN_FILE)
    try:
        program = Program(record["target"], tuple(record["arguments"]), record["is_module"])
        asked = Asked(program, record["graph"])
        return asked if _record(asked) == record else None
    except (LookupError, TypeError, OSError, MinifyError):  # the file is missing, or not this tool's
        return None


def _record(asked: Asked) -> dict[str, Any]:
    """Return the contents of run.json: equal records are of the same script, arguments and working folder."""
    program = asked.program
    target = program.said if program.is_module else str(Path(program.said).absolute())
    source = Path(program.said).read_bytes() if program.made_of else program.source().encode(errors="replace")
    digest = hashlib.blake2b(source, digest_size=16).hexdigest()
    return {
        "target": target,
        "arguments": list(program.arguments),
        "folder": os.getcwd(),
        "source": digest,
        "is_module": program.is_module,
        "graph": asked.graph,
    }


def _can_go_on(folder: Path) -> bool:
    has_begun = (folder / "case" / CASE).exists() and (folder / _RUN_FILE).exists()
    return has_begun and not (folder / RESULT).exists() and not is_held(folder / _RUN_FILE)


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def goes_on(asked: Asked, ui: Ui) -> Path | None:
    """Return the output folder of an interrupted run of the same script, if the user agrees to continue; else None."""
    folder = _interrupted_run(asked, list(RESULTS.glob(f"{asked.program.name}-*")))
    if folder is None or ui.ask(f"{folder} was interrupted, and the script is the same: continue it?"):
        return folder
    ui.say(f"an earlier run of this script was interrupted: `minify reduce {folder}` goes on with it")
    return None
