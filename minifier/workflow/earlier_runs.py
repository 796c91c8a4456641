"""The output folders of earlier runs: how each ended, and what failed. Nothing in them is executed."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from minifier.case.files import read_text
from minifier.case.run_folder import RESULTS
from minifier.case.serial import parsed
from minifier.case.store import CASE, RESULT
from minifier.errors import UsageError
from minifier.failure.normalise import shortened
from minifier.workflow.interrupted_runs import is_run, is_running

_MAX_MESSAGE_CHARACTERS = 60


@dataclass(frozen=True, slots=True)
class EarlierRun:
    """An output folder, its result.json and case/case.json. A record is empty without its file, or if that is damaged.

    A run that has not ended has no result.json.
    """

    path: Path
    result: dict[str, Any]
    case: dict[str, Any]

    @property
    def state(self) -> str:
        """How the run ended, in a word or two."""
        if self.result:
            return str(self.result.get("status", "unknown"))
        if (self.path / RESULT).exists():
            return "damaged"
        return "running" if is_running(self.path) else "interrupted"

    @property
    def failure(self) -> str:
        """The backend, the type and the beginning of the message, in a line."""
        failure, backend = (_part(self.result or self.case, name) for name in ("failure", "backend"))
        message = shortened(str(failure.get("message", "")), _MAX_MESSAGE_CHARACTERS)
        shown = ": ".join(filter(None, (str(failure.get("type", "")).rpartition(".")[2], message)))
        return f"{backend.get('name', '')}: {shown}" if shown else ""

    @property
    def size(self) -> str:
        """The number of ops, or of statements, before and after."""
        for parts in ("ops", "statements"):
            before, after = self.result.get(f"{parts}_before"), self.result.get(f"{parts}_after")
            if after is not None:
                return f"{before} -> {after} {parts}"
        return ""

    @property
    def key(self) -> str:
        """The key that equal failures share; "" if there is none."""
        return str(_part(self.result, "failure").get("key", ""))


def _part(result: dict[str, Any], name: str) -> dict[str, Any]:
    part = result.get(name)
    return part if isinstance(part, dict) else {}


def _earlier_run(path: Path) -> EarlierRun:
    return EarlierRun(path, _record(path / RESULT), _record(path / "case" / CASE))


def _record(path: Path) -> dict[str, Any]:
    try:
        record = parsed(read_text(path))
    except (OSError, ValueError, RecursionError):
        record = None
    return record if isinstance(record, dict) else {}


def runs_in(folders: Sequence[Path]) -> list[EarlierRun]:
    """Return the runs in these folders, which are runs themselves or hold some; the oldest first."""
    found = []
    for folder in folders or [RESULTS]:
        if not folder.is_dir() and folders:
            raise UsageError(f"{folder} is not a folder.")
        places = [folder, *(folder.glob("*")), *(folder.glob("*/graph-*"))]
        found += [place for place in places if is_run(place) or _has_ended(place)]
    return [_earlier_run(path) for path in sorted(dict.fromkeys(found), key=lambda path: path.stat().st_mtime)]


def _has_ended(folder: Path) -> bool:
    has_case = any((folder / name / CASE).is_file() for name in ("case", "minimal"))
    return has_case and (folder / RESULT).is_file()


def grouped(runs: Iterable[EarlierRun]) -> list[tuple[str, list[EarlierRun]]]:
    """Return the distinct failures of finished runs by key, each with its runs, the most frequent first."""
    groups: dict[str, list[EarlierRun]] = {}
    for run in runs:
        if run.key:
            groups.setdefault(run.key, []).append(run)
    return sorted(groups.items(), key=lambda item: -len(item[1]))


def removable(runs: Iterable[EarlierRun], every: bool) -> list[EarlierRun]:
    """Return the runs without a repro, or with `every` all; a run that goes on stays."""
    ended = (run for run in runs if run.state != "running")
    return [run for run in ended if every or not (run.path / "repro.py").exists()]


def remove(runs: Iterable[EarlierRun]) -> None:
    """Remove the folders of the runs, and a folder of results that is empty then."""
    for run in _outermost(runs):
        shutil.rmtree(run.path)
        with contextlib.suppress(OSError):  # it holds other runs
            if run.path.parent.name == RESULTS.name or run.path.name.startswith("graph-"):
                run.path.parent.rmdir()


def _outermost(runs: Iterable[EarlierRun]) -> list[EarlierRun]:
    runs = list(runs)
    paths = {run.path for run in runs}
    return [run for run in runs if run.path.parent not in paths]
