"""Environment variables of a repro, and the user's files that a variable leads to or the backend reads."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from minifier.data.case import BackendReference, State
from minifier.data.case.files import read_bytes
from minifier.data.case.literals import literal
from minifier.data.case.switches import is_secret, may_be_written
from minifier.errors import UsageError

_SUFFIX = re.compile(r"\.\w+")

MAX_FILE_BYTES = 2**20
# Leads a variable to a file of its name, which lies next to the repro.
_SETTING = 'os.environ["{name}"] = str(pathlib.Path(__file__).with_name("{name}{suffix}"))'
_NAMED = re.compile(
    r'os\.environ\["(?P<name>\w+)"\] = str\(pathlib\.Path\(__file__\)\.with_name\("(?P<file>(?P=name)(?:\.\w+)?)"\)\)'
)
# The line of a repro's last comment about a file that its backend reads.
NOTE_OF_FILE = "Reads {} in the folder in which it runs."
_READ = re.compile(
    rf"^# {re.escape(NOTE_OF_FILE).replace(re.escape('{}'), '(?P<file>[a-zA-Z0-9_-][a-zA-Z0-9_.-]*)')}$", re.MULTILINE
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


def may_lie_beside(path: Path) -> bool:
    """Whether the path is that of a file which can be read, and is not too large."""
    try:
        return path.is_file() and path.stat().st_size <= MAX_FILE_BYTES and os.access(path, os.R_OK)
    except (OSError, ValueError):
        return False


def files_beside(text: str) -> tuple[str, ...]:
    """Return the names of the user's files next to a repro, as its text says."""
    return tuple(dict.fromkeys(found["file"] for each in (_NAMED, _READ) for found in each.finditer(text)))


def contents_beside(script: Path, text: str) -> dict[str, bytes]:
    """Return the contents of the user's files next to a repro with this text, as far as they are there.

    Raises UsageError for anything but an ordinary file, and for one that is too large.
    """
    contents = {}
    for name in files_beside(text):
        try:
            contents[name] = read_bytes(script.with_name(name), MAX_FILE_BYTES)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise UsageError(
                f"{script.with_name(name)}, which the repro reads, is refused: {error.strerror}."
            ) from None
    return contents


@dataclass(frozen=True, slots=True)
class VariablesSource:
    """Statements that set variables, and what they need.

    files: the files that go next to the repro, by their names there.
    elsewhere: (name, value) of the variables whose values must not appear in a repro.
    """

    statements: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()
    files: dict[str, Path] = field(default_factory=dict)
    elsewhere: tuple[tuple[str, str], ...] = ()


def variables_source(state: State) -> VariablesSource:
    """Return the statements that set the Case's environment variables; they must run before torch is imported."""
    lines: list[str] = []
    files: dict[str, Path] = {}
    elsewhere: list[tuple[str, str]] = []
    for name, value in state.environment:
        if may_be_written(name, value):
            lines.append(f"os.environ[{literal(name)}] = {literal(value)}")
        elif (suffix := _suffix_of_file(name, value)) is not None:
            files[name + suffix] = Path(value)
            lines.append(_SETTING.format(name=name, suffix=suffix))
        else:
            elsewhere.append((name, value))
    return VariablesSource(tuple(lines), ("import pathlib",) if files else (), files, tuple(elsewhere))


def _suffix_of_file(name: str, value: str) -> str | None:
    """Return the suffix of the file that a variable leads to; None if it leads to none that can go next to a repro."""
    if is_secret(name) or not name.isidentifier() or not os.path.isabs(value):
        return None
    suffix = Path(value).suffix
    return (suffix if _SUFFIX.fullmatch(suffix) else "") if may_lie_beside(Path(value)) else None
