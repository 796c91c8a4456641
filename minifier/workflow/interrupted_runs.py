"""Runs that were interrupted: which of them were of the same script, unchanged."""

from __future__ import annotations

import contextlib
import fcntl
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
from minifier.process.progress import Ui
from minifier.workflow.run_folder import RESULTS

_RUN = "run.json"


_held: list[int] = []  # open as long as this process


@dataclass(frozen=True, slots=True)
class Asked:
    """What a run is asked to reduce: the program, and the number of one failing graph, if one was named."""

    program: Program
    graph: int | None = None


def note_run(place: Path, asked: Asked) -> None:
    """Writes into an output folder what was run, and that this process is at work there."""
    place.mkdir(parents=True, exist_ok=True)
    write_atomically(place / _RUN, json.dumps(_told(asked), indent=1) + "\n")
    lock_run(place)


def lock_run(place: Path) -> None:
    """Lock the run folder until this process ends, so that no other process takes its run for an interrupted one."""
    if (place / _RUN).exists():
        _held.append(os.open(place / _RUN, os.O_RDONLY))
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(_held[-1], fcntl.LOCK_SH | fcntl.LOCK_NB)


def _is_held(path: Path) -> bool:
    file = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(file)
    return False


def interrupted(asked: Asked, folders: Sequence[Path]) -> Path | None:
    """The last of these output folders in which this very reduction began and did not end."""
    told = _told(asked)
    found = [folder for folder in folders if _can_go_on(folder) and _read(folder / _RUN) == told]
    return max(found, key=lambda folder: (folder / _RUN).stat().st_mtime, default=None)


def asked_there(place: Path) -> Asked | None:
    """What was asked for in an output folder, if it was a script that is still the same."""
    told = _read(place / _RUN)
    try:
        program = Program(told["target"], tuple(told["arguments"]), told["is_module"])
        asked = Asked(program, told["graph"])
        return asked if _told(asked) == told else None
    except (LookupError, TypeError, OSError, MinifyError):  # no such file, or one that is not this tool's
        return None


def _told(asked: Asked) -> dict[str, Any]:
    program = asked.program
    target = program.said if program.is_module else str(Path(program.said).absolute())
    source = Path(program.said).read_bytes() if program.made_of else program.source().encode(errors="replace")
    digest = hashlib.blake2b(source, digest_size=16).hexdigest()
    return {"target": target, "arguments": list(program.arguments), "folder": os.getcwd(), "source": digest} | {
        "is_module": program.is_module,
        "graph": asked.graph,
    }


def _can_go_on(folder: Path) -> bool:
    is_left = (folder / "case" / CASE).exists() and (folder / _RUN).exists() and not (folder / RESULT).exists()
    return is_left and not _is_held(folder / _RUN)


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def goes_on(asked: Asked, ui: Ui) -> Path | None:
    """Return the output folder of an interrupted run of the same script, if the user wants to go on with that."""
    left = interrupted(asked, list(RESULTS.glob(f"{asked.program.name}-*")))
    if left is None or ui.ask(f"{left} was interrupted, and the script is the same: go on with that?"):
        return left
    ui.say(f"an earlier run of this script was interrupted: `minify reduce {left}` goes on with it")
    return None
