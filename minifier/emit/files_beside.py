"""The files of the user that lie next to a repro: an environment variable leads there, or the backend reads them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from minifier.case import BackendReference

MAX_FILE_BYTES = 2**20
_SETTING = 'os.environ["{name}"] = str(pathlib.Path(__file__).with_name("{name}{suffix}"))'
_NAMED = re.compile(
    r'os\.environ\["(?P<name>\w+)"\] = str\(pathlib\.Path\(__file__\)\.with_name\("(?P<file>(?P=name)(?:\.\w+)?)"\)\)'
)
_SAID = "Reads {} in the folder in which it runs."
_READ = re.compile(
    rf"^# {re.escape(_SAID).replace(re.escape('{}'), '(?P<file>[a-zA-Z0-9_-][a-zA-Z0-9_.-]*)')}$", re.MULTILINE
)
_NAME = re.compile(r"[a-zA-Z0-9_-]+\.[a-zA-Z0-9_.-]+")
# Files of an output folder or a bundle have these names or ends.
_OWN = re.compile(
    r"(?:repro|unverified)\.py|(?:result|run|finished|private|case|graph)\.json|(?:report|issue|page)\..*|.*\.(?:txt|jsonl|zip|safetensors)"
)


def files_read(backend: BackendReference) -> dict[str, Path]:
    """Return the files that a backend read in its current folder, by name, as far as they may lie next to a repro."""
    names = (name for name in backend.files if _NAME.fullmatch(name) and not _OWN.fullmatch(name))
    return {name: Path(name).absolute() for name in names if may_lie_beside(Path(name))}


def setting_of_file(name: str, suffix: str) -> str:
    """Return the statement that leads a variable to a file of its name, which lies next to the repro."""
    return _SETTING.format(name=name, suffix=suffix)


def may_lie_beside(path: Path) -> bool:
    """Whether the path is that of a file which can be read, and is not too large."""
    try:
        return path.is_file() and path.stat().st_size <= MAX_FILE_BYTES and os.access(path, os.R_OK)
    except (OSError, ValueError):
        return False


def said_of_files(names: Iterable[str]) -> tuple[str, ...]:
    """Return the lines of a repro's last comment about the files that its backend reads."""
    return tuple(map(_SAID.format, names))


def files_beside(text: str) -> tuple[str, ...]:
    """Return the names of the user's files next to a repro, as its text says."""
    return tuple(dict.fromkeys(found["file"] for each in (_NAMED, _READ) for found in each.finditer(text)))
