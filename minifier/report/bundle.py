"""bundle.zip: the repro, the reports, the result and the reduced Case, small enough for an issue tracker.

Files of input values and weights, and files of the user's that variables lead to, need the consent of the user; paths
are shortened. `repro.py` may list up to sixteen values that the failure needs.
"""

from __future__ import annotations

import functools
import json
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from minifier.case.files import MAX_TENSOR_BYTES, read_bytes
from minifier.case.made_here import MARK, is_own_repro, mark_of_repro
from minifier.case.store import CASE, GRAPH, written_whole
from minifier.process.distributions import installed
from minifier.report.outcome import Outcome
from minifier.report.privacy import Ownership, shareable_case, shareable_graph, without_private_paths
from minifier.report.redact import Redactor
from minifier.report.secret_constants import without_secret_comments
from minifier.slicing import definitions_left

LIMIT = 25 * 2**20  # bytes of an attachment on GitHub
BUNDLE = "bundle.zip"
_ENTRY_OVERHEAD_BYTES = 1 << 12  # for each entry's headers


@dataclass(frozen=True, slots=True)
class BundleEntry:
    """A file of the bundle. `size` is in bytes."""

    name: str
    size: int
    content: Callable[[], bytes]

    @classmethod
    def of(cls, name: str, text: str) -> BundleEntry:
        """Return the entry with this text."""
        data = text.encode()
        return cls(name, len(data), lambda: data)


@dataclass(frozen=True, slots=True)
class Plan:
    """The entries of a bundle, and the (name, size) of the entries left out because of their size, in bytes."""

    entries: tuple[BundleEntry, ...]
    left_out: tuple[tuple[str, int], ...]


def plan_bundle(entries: Iterable[BundleEntry], limit: int = LIMIT) -> Plan:
    """Return the entries that fit into `limit` bytes together, the most important first."""
    held, left_out = list[BundleEntry](), list[tuple[str, int]]()
    remaining_bytes = limit - _ENTRY_OVERHEAD_BYTES
    for entry in entries:
        size = len(zlib.compress(entry.content())) + _ENTRY_OVERHEAD_BYTES
        if size > remaining_bytes:
            left_out.append((entry.name, entry.size))
            continue
        remaining_bytes -= size
        held.append(entry)
    if left_out:
        rows = "".join(f"{name}: {size} bytes\n" for name, size in left_out)
        held.append(BundleEntry.of("LEFT_OUT.txt", f"Too large for an attachment of {limit} bytes:\n{rows}"))
    return Plan(tuple(held), tuple(left_out))


def write_bundle(path: Path, plan: Plan) -> None:
    """Write the archive with the planned entries."""
    with written_whole(path) as beside, zipfile.ZipFile(beside, "w", zipfile.ZIP_DEFLATED) as bundle:
        for entry in plan.entries:
            bundle.writestr(entry.name, entry.content())


def case_entries(folder: Path, outcome: Outcome, owned: Ownership, redactor: Redactor) -> Iterator[BundleEntry]:
    """Return the entries with the repro and the reduced Case, without what is private; the repro's constants stay."""
    definitions = definitions_left(outcome.minimal) if outcome.minimal is not None else ""
    if outcome.repro is not None:
        program = without_private_paths(without_secret_comments(outcome.repro.text, redactor), owned.script)
        yield BundleEntry.of("repro.py", redactor.settled("repro.py", program))
    if (folder / f"minimal/{CASE}").exists():
        for name in (CASE, GRAPH):
            text = (folder / "minimal" / name).read_text(encoding="utf-8")
            if name == CASE:
                text = shareable_case(text, owned, definitions, redactor.marked)
            else:
                text = shareable_graph(text, owned, redactor.marked)
            yield BundleEntry.of(f"minimal/{name}", redactor.clean(f"minimal/{name}", text))


def other_entries(folder: Path, outcome: Outcome, include_data: bool) -> Iterator[BundleEntry]:
    """Return the entries with the installed packages and, with the user's permission, the files that the repro reads.

    Values are in a file only if the failure needs exactly these.
    """
    yield BundleEntry.of("packages.txt", installed())
    for name in outcome.repro.beside if include_data and outcome.repro is not None else ():
        path = folder / name
        yield BundleEntry(name, path.stat().st_size, functools.partial(read_bytes, path, MAX_TENSOR_BYTES))


def with_mark(result: str, folder: Path, program: bytes) -> str:
    """Return result.json with the mark of the bundle's repro, which has no private paths.

    There is none if the folder's repro has no mark: whoever lists a stranger's folder must not vouch for it.
    """
    data, path = json.loads(result), folder / "repro.py"
    is_own = is_own_repro(data, path.read_bytes() if path.exists() else b"")
    data[MARK] = (mark_of_repro(program) or None) if is_own else None
    return json.dumps(data, indent=1)
