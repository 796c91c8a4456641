"""The output folder of a run: its paths, and the next free name."""

from __future__ import annotations

import contextlib
import itertools
import os
import shlex
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from minifier.data.case.store import ARTIFACTS, ATTEMPTS, RESULT, write_atomically

RESULTS = Path("minify-out")
_IGNORE, _ALL = ".gitignore", "*\n"
JOURNAL = "journal.jsonl"


def numbered(path: Path, first: int) -> Iterator[Path]:
    """Yield the path with `-<first>` at its end, then with the next numbers."""
    return (path.with_name(f"{path.name}-{number}") for number in itertools.count(first))


def shown_path(path: Path) -> str:
    """Return the path relative to the current folder if it is below that, else absolute."""
    try:
        return str(path.absolute().relative_to(Path.cwd()))
    except (ValueError, OSError):  # elsewhere; or the current folder has been removed
        return str(path)


def typed_path(path: Path) -> str:
    """Return the path as `shown_path` does, for a command that the user may copy: quoted if it has spaces, say."""
    return shlex.quote(shown_path(path))


def next_place(name: str, results: Path = RESULTS) -> Path:
    """Return `minify-out/<name>-<n>` with the first free n; nothing is made."""
    return next(place for place in numbered(results / name, 1) if not place.exists())


def ignore_results(out: Path) -> None:
    """Make the `minify-out` above an output folder. Git ignores a new one, which may hold the weights of a model."""
    for results in out.absolute().parents:
        if results.name == RESULTS.name and not results.exists():
            results.mkdir(parents=True, exist_ok=True)
            write_atomically(results / _IGNORE, _ALL)


def remove_empty(folders: Sequence[Path]) -> None:
    """Remove those of the folders, in this order, that have nothing but the .gitignore of `ignore_results`."""
    for folder in folders:
        with contextlib.suppress(OSError):  # it is not empty
            if os.listdir(folder) == [_IGNORE] and (folder / _IGNORE).read_text(encoding="utf-8") == _ALL:
                (folder / _IGNORE).unlink()
            folder.rmdir()


class _PathBelow:
    """A path in an output folder, as an attribute of `RunFolder`."""

    def __init__(self, *names: str) -> None:
        self._names = names

    def __get__(self, folder: RunFolder, _kind: type[RunFolder]) -> Path:
        return folder.path.joinpath(*self._names)


@dataclass(frozen=True, slots=True)
class RunFolder:
    """The output folder of a run, or of a failing graph.

    `default_for`: the program's name if the user named no folder. Another free folder will do then.
    `was_there`: the folder existed before the run.
    """

    path: Path
    default_for: str = ""
    was_there: bool = False

    case = _PathBelow("case")  # the Case as captured
    minimal = _PathBelow("minimal")  # the reduced Case
    nearest = _PathBelow("nearest")  # the Case that passes and differs least from the reduced Case
    others = _PathBelow("others")  # the smallest Case of each failure that was seen besides the sought failure
    artifacts = _PathBelow(ARTIFACTS)
    attempts = _PathBelow(ATTEMPTS)  # the scripts that did not show the failure, if no script did
    journal = _PathBelow(JOURNAL)  # a line for each probe of the reduction
    reached = _PathBelow("reduced.json")  # the script so far, while the script itself is reduced
    repro = _PathBelow("repro.py")  # the verified repro
    unverified = _PathBelow("unverified.py")  # the best script that was tried, if there is no repro
    result = _PathBelow(RESULT)  # the result as JSON; exists once the run has ended

    @property
    def shown(self) -> str:
        """The path as a user would type it."""
        return typed_path(self.path)

    @contextlib.contextmanager
    def scratch(self, name: str) -> Iterator[Path]:
        """Make an empty sub-folder, and remove it at the end. A killed run may have left its own."""
        folder = self.path / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

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
        remove_empty([self.path, *([self.path.parent] if self.path.parent.name == RESULTS.name else [])])
