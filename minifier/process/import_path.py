"""The import path of this process: Python puts the folder of the program first, unless it is told not to."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def _has_programs_folder() -> bool:
    """Whether the first entry is the program's folder: not with `-P`, `-I` or PYTHONSAFEPATH."""
    return not (sys.flags.isolated or getattr(sys.flags, "safe_path", False))  # Python 3.10 has no `safe_path`


def ordinary_path() -> tuple[str, ...]:
    """Return the import path without the program's folder."""
    return tuple(sys.path[_has_programs_folder() :])


def replace_programs_folder(folders: Sequence[str]) -> None:
    """Put these folders in the place of the program's folder, which is the tool's own."""
    sys.path[: _has_programs_folder()] = folders
