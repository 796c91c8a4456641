"""Find the output folder of an interrupted run of the same, unchanged script."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from minifier.capturing.script import Program, is_file
from minifier.case.files import read_text
from minifier.case.made_here import MARK, is_made_here, marked
from minifier.case.run_folder import RESULTS, RunFolder
from minifier.case.serial import parsed
from minifier.case.store import CASE, write_atomically
from minifier.errors import MinifyError
from minifier.process.locks import hold, is_held, release
from minifier.process.progress import Ui

if TYPE_CHECKING:
    from minifier.workflow.attempt import Run

RUN_FILE = "run.json"


@dataclass(frozen=True, slots=True)
class Asked:
    """The program to reduce, and the number of the failing graph, if named."""

    program: Program
    graph: int | None = None


def note_run(place: Path, asked: Asked) -> None:
    """Record the program and the graph in the output folder.

    Nothing is recorded of a program that has removed itself or its folder: its run cannot go on by itself.
    """
    place.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileNotFoundError):
        write_atomically(place / RUN_FILE, json.dumps(marked("run", _record(asked)), indent=1) + "\n")


def lock_run(place: Path, run: Run) -> None:
    """Lock the output folder until the run ends, so that no other process takes the run for interrupted.

    Name the run's temporary folder there.
    """
    if run.temporary is not None:
        run.temporary.name_in(place)
    if (place / RUN_FILE).exists():
        run.ending.callback(release, hold(place / RUN_FILE))


def is_own_run(place: Path) -> bool:
    """Whether this user's minify wrote run.json in the folder on this machine. Its program may be run again."""
    try:
        return is_made_here("run", parsed(read_text(place / RUN_FILE)))
    except (OSError, ValueError, RecursionError):
        return False


def _interrupted_run(asked: Asked, folders: Sequence[Path]) -> Path | None:
    """Return the latest of the folders in which this very reduction began and did not end, or None."""
    record = _record(asked)
    interrupted = [folder for folder in folders if _can_go_on(folder) and _read(folder / RUN_FILE) == record]
    return max(interrupted, key=lambda folder: (folder / RUN_FILE).stat().st_mtime, default=None)


def asked_there(place: Path) -> Asked | None:
    """Return the program and graph recorded in an output folder, or None if the script has changed."""
    record = _read(place / RUN_FILE)
    try:
        program = Program(
            record["target"],
            tuple(record["arguments"]),
            record["is_module"],
            backend=record["backend"],
            modules=tuple(record["modules"]),
        )
        if not (program.is_module or is_file(program.target)):  # a pipe, which has been read
            return None
        asked = Asked(program, record["graph"])
        return asked if _record(asked) == record else None
    except (LookupError, TypeError, AttributeError, ValueError, OSError, MinifyError):  # missing, or not this tool's
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
        "backend": program.backend,
        "modules": list(program.modules),
    }


def is_run(folder: Path) -> bool:
    """Whether a run has written its record into this folder."""
    record = _read(folder / RUN_FILE)
    return isinstance(record, dict) and {"target", "source", "graph"} <= record.keys()


def is_running(folder: Path) -> bool:
    """Whether a process still works on the run of this folder."""
    return is_held(folder / RUN_FILE)


def _can_go_on(folder: Path) -> bool:
    run = RunFolder(folder)
    has_begun = (run.case / CASE).exists() and (folder / RUN_FILE).exists()
    return has_begun and not run.result.exists() and not is_running(folder)


def _read(path: Path) -> Any:
    """Return the content of run.json without its mark, or None."""
    try:
        record = parsed(read_text(path))
        return {name: value for name, value in record.items() if name != MARK}
    except (OSError, ValueError, AttributeError):
        return None


def goes_on(asked: Asked, ui: Ui) -> Path | None:
    """Return the output folder of an interrupted run of the same script, if the user agrees to continue; else None."""
    folder = _interrupted_run(asked, list(RESULTS.glob(f"{asked.program.name}-*")))
    if folder is None or ui.ask(f"{folder} was interrupted, and the script is the same: continue it?"):
        return folder
    ui.say(f"an earlier run of this script was interrupted: `minify reduce {folder}` goes on with it")
    return None
