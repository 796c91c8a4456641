"""bundle.zip: the repro, the reports, the result and the reduced Case, small enough for an issue tracker.

Files of input values and weights need the consent of the user; paths are shortened. `repro.py` may list up to sixteen
values that the failure needs.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from minifier.case.store import CASE, GRAPH, written_whole
from minifier.emit.input_source import TENSOR_FILE
from minifier.process.distributions import installed
from minifier.report.outcome import Outcome
from minifier.report.privacy import shareable_case, shareable_graph, shareable_json, without_private_paths
from minifier.slicing import definitions_left

LIMIT = 25 * 2**20  # bytes of an attachment on GitHub
BUNDLE = "bundle.zip"
_ENTRY_OVERHEAD_BYTES = 1 << 12  # for each entry's headers


@dataclass(frozen=True, slots=True)
class Bundle:
    """The written file, and the entries left out because of their size, in bytes."""

    path: Path
    left_out: tuple[tuple[str, int], ...]


def write_bundle(folder: Path, outcome: Outcome, include_data: bool, limit: int = LIMIT) -> Bundle:
    """Write bundle.zip into the output folder, the most important entries first, within `limit` bytes.

    `include_data` is the user's permission to add the real values that the repro reads from a file. This file exists
    only if the failure needs exactly these values.
    """
    path = folder / BUNDLE
    left_out = []
    with written_whole(path) as beside, zipfile.ZipFile(beside, "w", zipfile.ZIP_DEFLATED) as bundle:
        remaining_bytes = limit - _ENTRY_OVERHEAD_BYTES
        for name, content in _content(folder, outcome, include_data):
            data = content()
            size = len(zlib.compress(data)) + _ENTRY_OVERHEAD_BYTES
            if size > remaining_bytes:
                left_out.append((name, len(data)))
                continue
            remaining_bytes -= size
            bundle.writestr(name, data)
        if left_out:
            rows = "".join(f"{name}: {size} bytes\n" for name, size in left_out)
            bundle.writestr("LEFT_OUT.txt", f"Too large for an attachment of {limit} bytes:\n{rows}")
    return Bundle(path, tuple(left_out))


def _content(folder: Path, outcome: Outcome, include_data: bool) -> Iterator[tuple[str, Callable[[], bytes]]]:
    private = outcome.case.script.path
    definitions = definitions_left(outcome.minimal) if outcome.minimal is not None else ""

    def text(path: Path, clean: Callable[[str, Iterable[str]], str]) -> Callable[[], bytes]:
        return lambda: clean(path.read_text(encoding="utf-8"), private).encode()

    for name, clean in (
        ("repro.py", without_private_paths),
        ("report.md", _unchanged),
        ("result.json", shareable_json),
        (f"minimal/{CASE}", lambda text, folders: shareable_case(text, folders, definitions)),
        (f"minimal/{GRAPH}", shareable_graph),
        ("report.html", _unchanged),
    ):
        if (folder / name).exists():
            yield name, text(folder / name, clean)
    yield "packages.txt", lambda: installed().encode()
    if include_data and outcome.repro is not None and outcome.repro.tensors is not None:
        yield TENSOR_FILE, (folder / TENSOR_FILE).read_bytes


def _unchanged(text: str, _private: Iterable[str]) -> str:
    return text  # of a report, which has no private paths
