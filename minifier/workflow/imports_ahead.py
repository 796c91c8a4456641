"""A backend that needs other imports of the script: these are put ahead of the backend's own imports."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from importlib.machinery import PathFinder

from minifier.case import Case
from minifier.case.store import ATEN, CASE, load, save
from minifier.slicing.imports import import_lines
from minifier.workflow.attempt import Attempt
from minifier.workflow.reduction import reduce


def other_imports(attempt: Attempt) -> tuple[tuple[str, ...], ...]:
    """Return the imports of the script that may have to precede the backend's, the fewest first."""
    if attempt.asked is None or attempt.case.backend.ahead:
        return ()
    try:
        effects, every = import_lines(attempt.asked.program.source())
    except SyntaxError:
        return ()
    known = {*attempt.case.backend.imports, "import torch"}
    return tuple(lines for lines in dict.fromkeys((effects, every)) if set(lines) - known)


def reduce_with_imports(attempt: Attempt) -> Attempt:
    """Reduce again with the script's imports ahead of the backend's; return the attempt unchanged if that fails too."""
    for lines in other_imports(attempt):
        again = _with_imports(attempt, lines)
        again = reduce(replace(again, error=None))
        if again.error is None:
            return again
        attempt.run.ui.detail(f"with {'; '.join(lines)}: {again.error}")
    return _with_imports(attempt, ())


def _with_imports(attempt: Attempt, lines: tuple[str, ...]) -> Attempt:
    """Return the attempt with these imports ahead, in the saved Cases too."""
    folder = attempt.folder.case
    for place in (folder, folder / ATEN):
        if (place / CASE).exists():
            save(_case_with_imports(load(place), attempt.case, lines), place)
    return replace(attempt, case=load(folder))


def _case_with_imports(case: Case, captured: Case, lines: tuple[str, ...]) -> Case:
    folders = tuple(dict.fromkeys((*captured.backend.folders, *_folders(lines, case.script.path))))
    return replace(case, backend=replace(case.backend, ahead=lines, folders=folders))


def _folders(lines: tuple[str, ...], path: tuple[str, ...]) -> Iterator[str]:
    """Yield the folders of the script's own import path that hold the imported packages."""
    for line in lines:
        package = line.split()[1].partition(".")[0]
        yield from (folder for folder in path if PathFinder.find_spec(package, [folder]) is not None)
