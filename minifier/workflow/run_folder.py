"""The output folder of a run: its paths, and how to find, make and empty the folder."""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from minifier.case.store import ATEN, CASE, FORWARD, RESULT
from minifier.errors import UsageError

RESULTS = Path("minify-out")


def next_place(name: str, results: Path = RESULTS) -> Path:
    """Return `minify-out/<name>-<n>` with the first free n; nothing is made."""
    return next(place for n in itertools.count(1) if not (place := results / f"{name}-{n}").exists())


@dataclass(frozen=True, slots=True)
class RunFolder:
    """The output folder of a run, or of a failing graph.

    `default_for` is the program's name if the user named no folder, so that the next free folder would do as well.
    """

    path: Path
    default_for: str = ""

    @property
    def case(self) -> Path:
        """The Case as captured."""
        return self.path / "case"

    @property
    def aten(self) -> Path:
        """The Case of the ATen graph that AOTAutograd made of the captured graph."""
        return self.case / ATEN

    @property
    def forward(self) -> Path:
        """The Case of the forward graph that a captured backward graph belongs to."""
        return self.case / FORWARD

    @property
    def minimal(self) -> Path:
        """The reduced Case."""
        return self.path / "minimal"

    @property
    def reduced_aten(self) -> Path:
        """The output folder of the reduction of the ATen graph."""
        return self.path / ATEN

    @property
    def reduced_forward(self) -> Path:
        """The output folder of the reduction of the forward graph."""
        return self.path / FORWARD

    @property
    def journal(self) -> Path:
        """A line for each probe of the reduction."""
        return self.path / "journal.jsonl"

    @property
    def result(self) -> Path:
        """The result as JSON; exists once the run has ended."""
        return self.path / RESULT

    @property
    def has_aten(self) -> bool:
        """Whether the ATen graph was captured with Dynamo's."""
        return (self.aten / CASE).exists()

    @property
    def has_forward(self) -> bool:
        """Whether the Case is of a backward graph whose forward graph was captured too."""
        return (self.forward / CASE).exists()

    def empty(self, name: str) -> Path:
        """Return a new, empty sub-folder; remove the leftovers of a killed run."""
        folder = self.path / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        return folder

    def clear(self, keep: bool) -> None:
        """Empty the folder. Without `keep`, remove the folder too, and then an empty `minify-out`."""
        if not self.path.exists():
            return
        for entry in self.path.iterdir():
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            else:
                entry.unlink()
        if keep or self.path.is_symlink():
            return
        self.path.rmdir()
        if self.path.parent.name == RESULTS.name and not any(self.path.parent.iterdir()):
            self.path.parent.rmdir()


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
        tempfile.TemporaryDirectory(prefix=".minify-", dir=existing).cleanup()
    except OSError as error:
        raise UsageError(
            f"{existing} is not a folder that can be written to ({error.strerror}). Choose another with --out."
        ) from None
    return RunFolder(wanted.absolute(), default_for)


def make_folder(folder: RunFolder) -> RunFolder:
    """Make the output folder. If another run has taken a default folder by now, make the next free folder."""
    while True:
        try:
            folder.path.mkdir(parents=True, exist_ok=not folder.default_for)
            return folder
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
    return given / "case" if not (given / CASE).exists() and (given / "case").is_dir() else given
