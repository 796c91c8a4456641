"""Folders in which `minifier.capture` keeps what it sees, one a process, and which one that dies leaves behind."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from minifier.capturing.running_calls import Running, RunningCalls

STATUS = "status"
SOURCE = "script.py"
_NAME = re.compile(r"unfinished-(\d+)(-\d+)?")


def new_folder(out: Path) -> tuple[Path, list[Path]]:
    """A folder for this process in the output folder; and the folders that were made for it, the innermost first."""
    made = [place for place in (out, *out.parents) if not place.exists()]
    out.mkdir(parents=True, exist_ok=True)
    for name in (f"unfinished-{os.getpid()}", *(f"unfinished-{os.getpid()}-{n}" for n in range(2, 1000))):
        with contextlib.suppress(FileExistsError):
            (out / name).mkdir()
            return out / name, made
    raise FileExistsError(f"{out} has a thousand folders of this process")


def lock_leftover(left: Path) -> int:
    """Has nobody take this for what a dead process left, as long as the file descriptor that it gives is open, and not
    in a forked process, which does not hold it."""
    file = os.open(left / STATUS, os.O_RDWR | os.O_CLOEXEC)
    with contextlib.suppress(OSError):  # a file system without locks
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return file


def _is_held(left: Path) -> bool:
    """Whether the process that keeps things there is still at it."""
    found = _NAME.fullmatch(left.name)
    if found is not None and int(found[1]) == os.getpid():  # opening and closing it would let go of it
        return True
    try:
        file = os.open(left / STATUS, os.O_RDWR)
    except OSError:
        return False
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # a file system without locks
        return False
    finally:
        os.close(file)
    return False


def is_unfinished(out: Path) -> bool:
    """Whether there is something in the folder, and all of it is what captures keep there."""
    try:
        names = os.listdir(out)
    except OSError:
        return False
    return bool(names) and all(_NAME.fullmatch(name) for name in names)


def left_in(out: Path) -> list[tuple[Path, list[Running]]]:
    """What dead processes left in the folder: each with the backend calls it was in, the last begun first."""
    folders = [out / name for name in sorted(os.listdir(out)) if _NAME.fullmatch(name)]
    return [(folder, _running(folder)) for folder in folders if not _is_held(folder)]


def clear_finished(out: Path) -> bool:
    """Removes what processes left that died, but in no backend call; whether there is nothing else of dead ones."""
    dead = left_in(out)
    for folder, running in dead:
        if not running:
            shutil.rmtree(folder, ignore_errors=True)
    return all(not running for _, running in dead)


def _running(folder: Path) -> list[Running]:
    path = folder / STATUS
    return RunningCalls(path).running() if path.is_file() and os.access(path, os.W_OK) else []


def remove_made(made: Sequence[Path]) -> None:
    """Removes the folders that were made for nothing, if nothing else is in them."""
    for place in made:
        try:
            place.rmdir()
        except OSError:
            return
