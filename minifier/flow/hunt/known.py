"""The failures of a backend that are known: a TOML file with an entry for each distinct one, by its key."""

from __future__ import annotations

import datetime
import importlib
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple, dataclass
from pathlib import Path

from minifier.data.case.store import write_atomically
from minifier.data.failure.normalise import printable
from minifier.errors import UsageError
from minifier.flow.hunt.records import HUNT, Records
from minifier.flow.hunt.summary import DistinctFailure, distinct
from minifier.flow.hunt.trial import Answer

tomllib = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")


@dataclass(frozen=True, slots=True)
class KnownFailure:
    """An entry. `program` is the name of one that shows the failure; `what` says what fails, for a reader."""

    program: str
    what: str
    reason: str = ""
    issue: str = ""
    since: str = ""


def read_known(path: Path, is_written: bool) -> dict[str, KnownFailure]:
    """Return the entries of the file by key; none of a file that is not there yet and `is_written`.

    The folder of an earlier hunt has an entry for each of its failures. Raises UsageError for a file that is damaged,
    or missing.
    """
    if (path / HUNT).exists() and not is_written:
        earlier = Records(path)
        return new_failures(earlier, distinct(earlier), {})
    if not path.exists() and is_written:
        return {}
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
        known = {key: KnownFailure(**fields) for key, fields in tables.items()}
        if not all(isinstance(text, str) for entry in known.values() for text in astuple(entry)):
            raise ValueError("every value of an entry is a text in quotes")
    except (OSError, ValueError, TypeError) as error:
        raise UsageError(f"--known {path} cannot be read: {error}.") from None
    return known


def new_failures(
    records: Records, failures: Sequence[DistinctFailure], known: Mapping[str, KnownFailure]
) -> dict[str, KnownFailure]:
    """Return an entry for each failure that is not known: by its key, or without one by the program that shows it."""
    today = datetime.date.today().isoformat()
    programs = {entry.program for entry in known.values()}
    new: dict[str, KnownFailure] = {}
    for each in failures:
        what = f"{each.what}: {each.group.failure.sentence}"
        if each.key not in known and (each.key or each.group.program not in programs):
            new[each.key or each.group.program] = KnownFailure(each.group.program, what, since=today)
    for line in records.without_graph:
        if line.name not in programs:
            new[line.name] = KnownFailure(line.name, f"{line.name}: {line.reason}", since=today)
    return new


def gone(records: Records, failures: Sequence[DistinctFailure], known: Mapping[str, KnownFailure]) -> list[str]:
    """Return the keys of known failures that no program shows any more, though theirs was tried and works."""
    seen = {each.key for each in failures}
    works = {each.name for each in records.tried if each.answer in (Answer.WORKS, Answer.FALLBACK)}
    return [key for key, entry in known.items() if key not in seen and entry.program in works]


def write_known(path: Path, known: Mapping[str, KnownFailure]) -> None:
    """Write the entries."""
    tables = (
        f"[{_text(key)}]\n" + "".join(f"{name} = {_text(value)}\n" for name, value in asdict(entry).items())
        for key, entry in known.items()
    )
    write_atomically(path, "\n".join(tables))


def _text(value: str) -> str:
    """Return a text as TOML and JSON both write it."""
    return json.dumps(printable(value, kept=""), ensure_ascii=False)
