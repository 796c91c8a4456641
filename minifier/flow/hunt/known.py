"""The failures of a backend that are known: a TOML file with an entry for each distinct one, by its key."""

from __future__ import annotations

import datetime
import importlib
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from minifier.data.case.store import write_atomically
from minifier.errors import UsageError
from minifier.flow.hunt.records import Records
from minifier.flow.hunt.summary import Distinct
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


def read_known(path: Path) -> dict[str, KnownFailure]:
    """Return the entries of the file by key; none of a file that is not there. Raises UsageError for a damaged one."""
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        return {key: KnownFailure(**fields) for key, fields in tables.items()}
    except (OSError, ValueError, TypeError) as error:
        raise UsageError(f"--known {path} cannot be read: {error}") from None


def new_failures(records: Records, failures: Sequence[Distinct], known: Mapping[str, KnownFailure]) -> list[str]:
    """Return a sentence for each failure that is not known, with or without a graph."""
    new = [f"{each.what}: {each.group.failure.sentence}" for each in failures if each.key not in known]
    return new + [f"{each.name}: {each.reason}" for each in records.tried if each.is_without_graph]


def gone(records: Records, failures: Sequence[Distinct], known: Mapping[str, KnownFailure]) -> list[str]:
    """Return the keys of known failures that no program shows any more, though theirs was tried and works."""
    seen = {each.key for each in failures}
    works = {each.name for each in records.tried if each.answer in (Answer.WORKS, Answer.FALLBACK)}
    return [key for key, entry in known.items() if key not in seen and entry.program in works]


def write_known(path: Path, records: Records, failures: Sequence[Distinct], known: Mapping[str, KnownFailure]) -> None:
    """Write the file anew: the entries that still fail or were not tried stay, and each new failure gets one."""
    left = {key: entry for key, entry in known.items() if key not in gone(records, failures, known)}
    for each in failures:
        if each.key and each.key not in left:
            program = next(tried.name for tried in records.tried if tried.group in each.numbers)
            today = datetime.date.today().isoformat()
            left[each.key] = KnownFailure(program, f"{each.what}: {each.group.failure.sentence}", since=today)
    tables = (
        f"[{key}]\n" + "".join(f"{name} = {json.dumps(value)}\n" for name, value in asdict(entry).items())
        for key, entry in left.items()
    )
    write_atomically(path, "\n".join(tables))
