"""Files with code that this user's minify did not write on this machine: a question comes ahead of running it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from minifier.data.case.files import is_made_here, is_own_repro, read_bytes
from minifier.data.case.run_folder import RunFolder
from minifier.data.case.store import CASE, FINISHED, GRAPH, RECORD, RESULT, is_own, read_json
from minifier.data.failure.normalise import printable
from minifier.flow.folders import RUN_FILE, SOURCE, is_own_run, is_own_source
from minifier.repro.emit.files_beside import contents_beside

_MAX_FILES = 12  # that are named
_MAX_CHARACTERS = 200  # of a name


def foreign_code_in(folder: Path) -> list[str]:
    """Return the files in the folder that `minify reduce` might run something of, and that have no mark of this user.

    Symbolic links count as foreign: this tool makes none.
    """
    found: list[str] = []
    for parent, folders, files in os.walk(folder):
        place = Path(parent)
        found += [f"{place / name}, a link" for name in (*folders, *files) if (place / name).is_symlink()]
        if CASE in files and not is_own(place):
            found += [str(place / name) for name in (CASE, GRAPH)]
        own = {RUN_FILE: is_own_run, SOURCE: is_own_source}
        found += [str(place / name) for name, is_own_file in own.items() if name in files and not is_own_file(place)]
    return found


def foreign_code_of(script: Path) -> list[str]:
    """Return the files that `minify check` of a repro in a folder might run, unless they have this user's mark."""
    text = read_bytes(script)
    case = RunFolder(script.parent).minimal / CASE  # its folders are for the import path
    beside = contents_beside(script, text.decode(errors="replace"))
    is_own_script = is_own_repro(read_json(script.with_name(RESULT)), text, beside)
    found = [] if is_own_script else [str(script), *(str(script.with_name(name)) for name in beside)]
    return [*found, str(case)] if case.exists() and not is_own(case.parent) else found


def foreign_code_of_run(folder: Path) -> list[str]:
    """Return the files of a finished run's folder that a command might run, unless they have this user's marks."""
    found = dict.fromkeys((*foreign_code_in(folder), *foreign_code_of(folder / "repro.py")))
    if not is_made_here(RECORD, read_json(folder / FINISHED)):
        found[str(folder / FINISHED)] = None
    return list(found)


def shown(files: Sequence[str]) -> str:
    """Return the names as lines of printable text."""
    lines = [f"  {printable(name, kept='')[:_MAX_CHARACTERS]}" for name in files[:_MAX_FILES]]
    return "\n".join([*lines, f"  and {len(files) - _MAX_FILES} more"] if len(files) > _MAX_FILES else lines)
