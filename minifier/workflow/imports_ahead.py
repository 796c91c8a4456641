"""A backend that needs other imports of the script: these are put ahead of the backend's own imports."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import replace
from importlib.machinery import PathFinder

from minifier.case import Case
from minifier.case.store import ATEN
from minifier.slicing.imports import import_lines
from minifier.workflow.attempt import Attempt
from minifier.workflow.reduction import reduce_changed


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
        change = functools.partial(_with_imports, lines=lines)
        again = reduce_changed(attempt, change, f"with {'; '.join(lines)}", (ATEN,))
        if again is not attempt:
            return again
    return attempt


def _with_imports(case: Case, lines: tuple[str, ...]) -> Case:
    folders = tuple(dict.fromkeys((*case.backend.folders, *_folders(lines, case.script.path))))
    return replace(case, backend=replace(case.backend, ahead=lines, folders=folders))


def _folders(lines: tuple[str, ...], path: tuple[str, ...]) -> Iterator[str]:
    """Yield the folders of the script's own import path that hold the imported packages."""
    for line in lines:
        package = line.split()[1].partition(".")[0]
        yield from (folder for folder in path if PathFinder.find_spec(package, [folder]) is not None)
