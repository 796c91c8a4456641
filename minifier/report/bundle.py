"""bundle.zip: the repro, the reports, the result and the reduced Case. No weights, no inputs, no paths, unless the user
agrees; and no more than a tracker takes."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from minifier.case.store import CASE, GRAPH, written_whole
from minifier.emit.input_source import TENSOR_FILE
from minifier.report.outcome import Outcome
from minifier.report.privacy import shareable_case, shareable_graph, shareable_json, without_private_paths
from minifier.slicing import definitions_left

LIMIT = 25 * 2**20  # bytes that an attachment may have on GitHub
BUNDLE = "bundle.zip"
_OVERHEAD = 1 << 12  # bytes for each entry's name and place


@dataclass(frozen=True, slots=True)
class Bundle:
    """What was written, and what had to be left out for its size, with that size in bytes."""

    path: Path
    left_out: tuple[tuple[str, int], ...]


def write_bundle(folder: Path, outcome: Outcome, include_data: bool, limit: int = LIMIT) -> Bundle:
    """Writes bundle.zip into the output folder, the most important first as long as there is room.

    `include_data` is the user's word that real values may go along: those that a repro reads from a file,
    which is there only if the failure needs exactly these.
    """
    path = folder / BUNDLE
    left_out = []
    with written_whole(path) as beside, zipfile.ZipFile(beside, "w", zipfile.ZIP_DEFLATED) as bundle:
        room = limit - _OVERHEAD
        for name, content in _content(folder, outcome, include_data):
            data = content()
            size = len(zlib.compress(data)) + _OVERHEAD
            if size > room:
                left_out.append((name, len(data)))
                continue
            room -= size
            bundle.writestr(name, data)
        if left_out:
            rows = "".join(f"{name}: {size} bytes\n" for name, size in left_out)
            bundle.writestr("LEFT_OUT.txt", f"Too large for an attachment of {limit} bytes:\n{rows}")
    return Bundle(path, tuple(left_out))


def _content(folder: Path, outcome: Outcome, include_data: bool) -> Iterator[tuple[str, Callable[[], bytes]]]:
    private = outcome.case.script.path
    definitions = definitions_left(outcome.minimal) if outcome.minimal is not None else ""

    def text(path: Path, made: Callable[[str, Iterable[str]], str]) -> Callable[[], bytes]:
        return lambda: made(path.read_text(encoding="utf-8"), private).encode()

    for name, made in (
        ("repro.py", without_private_paths),
        ("report.md", _as_it_is),
        ("result.json", shareable_json),
        (f"minimal/{CASE}", lambda text, folders: shareable_case(text, folders, definitions)),
        (f"minimal/{GRAPH}", shareable_graph),
        ("report.html", _as_it_is),
    ):
        if (folder / name).exists():
            yield name, text(folder / name, made)
    if include_data and outcome.repro is not None and outcome.repro.tensors is not None:
        yield TENSOR_FILE, (folder / TENSOR_FILE).read_bytes


def _as_it_is(text: str, _private: Iterable[str]) -> str:
    """A report, which was made to be handed on."""
    return text
