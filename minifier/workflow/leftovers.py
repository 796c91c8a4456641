"""The folder of each process within `minifier.capture`, which is left over if the process dies."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from minifier.capturing.running_calls import Running, RunningCalls
from minifier.case.files import read_text
from minifier.case.made_here import is_made_here, marked
from minifier.case.run_folder import numbered
from minifier.case.serial import parsed
from minifier.case.store import write_atomically
from minifier.process.locks import is_held

STATUS = "status"
SOURCE = "script.json"  # of the script: a Case may need its definitions
_NAME = re.compile(r"unfinished-\d+(-\d+)?")


def new_folder(out: Path) -> tuple[Path, list[Path]]:
    """Make a folder for this process in the output folder.

    Return the folder, and the parents that had to be made, the innermost first.
    """
    new_parents = [place for place in (out, *out.parents) if not place.exists()]
    out.mkdir(parents=True, exist_ok=True)
    own = out / f"unfinished-{os.getpid()}"
    for place in itertools.chain([own], numbered(own, 2)):
        with contextlib.suppress(FileExistsError):
            place.mkdir()
            return place, new_parents
    raise AssertionError("numbers have an end")


def keep_source(folder: Path, text: str) -> None:
    """Write the script's text into the folder of a process."""
    write_atomically(folder / SOURCE, json.dumps(marked("script", {"source": text})) + "\n")


def kept_source(folder: Path) -> str:
    """Return the script's text from the folder of a process; "" if there is none."""
    data = _source(folder)
    return data["source"] if isinstance(data, dict) and isinstance(data.get("source"), str) else ""


def is_own_source(folder: Path) -> bool:
    """Whether this user's minify wrote the script's text there on this machine."""
    return is_made_here("script", _source(folder))


def _source(folder: Path) -> Any:
    try:
        return parsed(read_text(folder / SOURCE))
    except (OSError, ValueError, RecursionError):
        return None


def is_unfinished(out: Path) -> bool:
    """Whether the folder is not empty and has only folders of capturing processes."""
    try:
        names = os.listdir(out)
    except OSError:
        return False
    return bool(names) and all(_NAME.fullmatch(name) for name in names)


def dead_captures(out: Path) -> list[tuple[Path, list[Running]]]:
    """Return the folders of dead processes, with the backend calls that each was in, the last begun first."""
    folders = [out / name for name in sorted(os.listdir(out)) if _NAME.fullmatch(name)]
    return [(folder, _running(folder)) for folder in folders if not is_held(folder / STATUS)]


def clear_finished(out: Path) -> bool:
    """Remove the folders of processes that died in no backend call; return whether all dead processes did."""
    dead = dead_captures(out)
    for folder, running in dead:
        if not running:
            shutil.rmtree(folder, ignore_errors=True)
    return all(not running for _, running in dead)


def _running(folder: Path) -> list[Running]:
    path = folder / STATUS
    return RunningCalls(path).running() if path.is_file() and os.access(path, os.W_OK) else []


def remove_empty(folders: Sequence[Path]) -> None:
    """Remove the folders in this order, up to the first that is not empty."""
    for place in folders:
        try:
            place.rmdir()
        except OSError:
            return
