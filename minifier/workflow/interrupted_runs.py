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
    hold(place)


def hold(place: Path) -> None:
    """Has nobody take what this process does there for interrupted, until it ends."""
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
