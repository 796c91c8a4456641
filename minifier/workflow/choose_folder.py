"""Choose, make and find the output folder of a run."""

from __future__ import annotations

import os
import tempfile
from dataclasses import replace
from pathlib import Path

from minifier.case.run_folder import RunFolder, next_place
from minifier.case.store import CASE
from minifier.errors import UsageError


def choose_folder(wanted: Path | None, name: str) -> RunFolder:
    """Return the output folder for a run, by default the next free folder; nothing is made yet.

    Raises UsageError for a folder that is not empty, or cannot be written to.
    """
    default_for = name if wanted is None else ""
    if wanted is None:
        wanted = next_place(name)
    elif wanted.exists() and not wanted.is_dir():
        raise UsageError(f"--out {wanted} is a file. Name a folder that is empty or does not exist.")
    elif wanted.is_dir() and any(_entries(wanted)):
        raise UsageError(f"--out {wanted} is not empty. Name a folder that is empty or does not exist.")
    existing = wanted
    while not existing.exists():
        existing = existing.parent
    try:  # permissions alone do not tell: the file system may be read-only, the user root
        tempfile.TemporaryFile(dir=existing).close()  # without a name: a kill leaves nothing
    except OSError as error:
        raise UsageError(
            f"{existing} is not a folder that can be written to ({error.strerror}). Choose another with --out."
        ) from None
    return RunFolder(wanted.absolute(), default_for)


def make_folder(folder: RunFolder) -> RunFolder:
    """Make the output folder. If another run has taken a default folder by now, make the next free folder."""
    while True:
        was_there = folder.path.exists()
        try:
            folder.path.mkdir(parents=True, exist_ok=not folder.default_for)
            return replace(folder, was_there=was_there)
        except FileExistsError:
            folder = choose_folder(None, folder.default_for)


def _entries(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError as error:
        raise UsageError(f"{folder} cannot be read: {error.strerror}.") from None


def case_folder(given: Path) -> Path:
    """Return the Case folder that `given` names: itself, or the case/ of an output folder.

    Raises UsageError if `given` is not a folder.
    """
    if not given.exists():
        raise UsageError(f"{given} does not exist.")
    if not given.is_dir():
        raise UsageError(f"{given} is not a folder. Give the case/ or minimal/ folder of a run's output.")
    case = RunFolder(given).case
    return case if not (given / CASE).exists() and case.is_dir() else given
