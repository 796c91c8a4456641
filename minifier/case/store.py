"""A Case as a folder: case.json, graph.json (a line for each node) and, if values are stored, tensors.safetensors.

All files are readable by a person, and loading executes and unpickles nothing. case.json has a mark over itself and
graph.json: what is in these two may be executed in a reduction.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import os
import re
import shutil
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from minifier.case.case import Case
from minifier.case.checks import anything
from minifier.case.defects import Defect, within
from minifier.case.files import read_text
from minifier.case.graph import Graph
from minifier.case.made_here import MARK, is_made_here, marked
from minifier.case.relations import fits
from minifier.case.schema import CASE_FIELDS
from minifier.case.serial import pack, parsed, unpack
from minifier.case.stored import TENSORS, check_tensors
from minifier.case.texts import shown
from minifier.errors import CannotSave, UsageError

VERSION = 2  # of the files of a Case
_REQUIRED = ("inputs", "backend", "failure", "state", "script")  # fields that every case.json has
CASE, GRAPH = "case.json", "graph.json"
ATTEMPTS = "attempts"  # scripts of the graph that did not show the failure, if none did
RESULT = "result.json"  # next to a Case's folder: a finished run
# Subfolders: Dynamo's graph of a backward graph, and AOTAutograd's ATen graph of Dynamo's graph.
FORWARD, ATEN = "forward", "aten"


_open = open  # scripts replace it, and Cases are saved while a script runs
_PARTIAL = re.compile(r"\..+\.\d+")


@contextlib.contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """Yield a temporary path that replaces `path` once its content is on the disk. The old file stays on an error."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.unlink(missing_ok=True)  # left by a killed process, or a link that somebody put there
    try:
        yield temporary
        with _open(temporary, "rb") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def remove_partial(folder: Path) -> None:
    """Remove the files that killed processes were writing anywhere below the folder, which nobody else may be using."""
    for path in folder.rglob(".*"):
        if _PARTIAL.fullmatch(path.name) and path.is_file():
            path.unlink(missing_ok=True)


def write_atomically(path: Path, text: str) -> None:
    """Write the whole file, or leave the old file."""
    with written_whole(path) as temporary, _open(temporary, "w", encoding="utf-8") as file:
        file.write(text)


def copy_atomically(source: Path, path: Path) -> None:
    """Copy the whole file, or leave the old file."""
    with written_whole(path) as temporary, _open(source, "rb") as original, _open(temporary, "wb") as copy:
        shutil.copyfileobj(original, copy)


def graph_to_text(graph: Graph) -> str:
    """Return the graph as JSON with a line for each node. Raises CannotSave, naming the node."""
    lines = []
    for node in graph.nodes:
        try:
            lines.append(json.dumps(pack(node)))
        except CannotSave as error:
            raise CannotSave(f"op {node.name} ({node.target}) has an argument that cannot be saved: {error}") from None
    rest = {"attributes": pack(graph.attributes), "modules": pack(graph.modules)}
    return '{"nodes": [\n' + ",\n".join(lines) + f'\n],\n"rest": {json.dumps(rest)}}}\n'


def graph_from_text(text: str) -> Graph:
    """Return the graph that `graph_to_text` encoded. Raises ValueError, with the place of the defect."""
    data = parsed(text)
    if not isinstance(data, dict) or set(data) != {"nodes", "rest"} or not isinstance(data["rest"], dict):
        raise ValueError("expected an object with `nodes` and `rest`")
    try:
        nodes = unpack(Graph, {"nodes": data["nodes"], **data["rest"]})
    except Defect as error:
        rest = error.place.startswith((".attributes", ".modules"))
        raise Defect(error.sentence, f"rest{error.place}" if rest else error.place) from None
    return typing.cast(Graph, nodes)


def save(case: Case, folder: Path) -> None:
    """Write the Case and a copy of its tensor file into `folder`, which is created if needed."""
    folder.mkdir(parents=True, exist_ok=True)
    graph = graph_to_text(case.graph)
    write_atomically(folder / GRAPH, graph)
    has_tensors = case.tensors is not None and case.tensors.exists()
    if has_tensors and case.tensors is not None and case.tensors.resolve() != (folder / TENSORS).resolve():
        copy_atomically(case.tensors, folder / TENSORS)
    data: dict[str, Any] = {"version": VERSION, "tensors": TENSORS if has_tensors else None}
    for f in dataclasses.fields(case):
        if f.name not in ("graph", "tensors"):
            data[f.name] = pack(getattr(case, f.name))
    write_atomically(folder / CASE, json.dumps(marked("case", data, graph.encode()), indent=1) + "\n")


def is_own(folder: Path) -> bool:
    """Whether this user's minify wrote the Case in `folder` on this machine, and nobody has changed it since."""
    try:
        return is_made_here("case", parsed(read_text(folder / CASE)), read_text(folder / GRAPH).encode())
    except (OSError, ValueError, RecursionError):
        return False


def _read(path: Path) -> str:
    try:
        return read_text(path)
    except OSError as error:
        raise UsageError(
            f"{path.parent} is not a Case folder: {path.name} cannot be read ({error.strerror}).\n"
            "Give the `case` or `minimal` folder of a run's output, or that output folder itself."
        ) from None
    except UnicodeDecodeError:
        raise UsageError(f"{path} is damaged: it is not UTF-8 text. Capture the Case again.") from None


@functools.cache
def _fields() -> dict[str, Any]:
    """Return the names and types of case.json's fields."""
    hints = typing.get_type_hints(Case)
    return {f.name: hints[f.name] for f in dataclasses.fields(Case) if f.name not in ("graph", "tensors")}


def load(folder: Path) -> Case:
    """Return the Case in `folder`. Raises UsageError, naming file and place, if a file is missing or damaged.

    Nothing of the Case is executed, and no file outside the folder is opened.
    """
    path = folder / CASE
    if folder.is_symlink():
        raise UsageError(f"{folder} is a link. Give the folder that it leads to.")
    try:
        sections, tensors = _sections(parsed(_read(path)), folder)
        path = folder / GRAPH
        graph = graph_from_text(_read(path))
        fits(graph, sections["inputs"])
        case = Case(graph=graph, tensors=tensors, **sections)
        check_tensors(case)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is damaged: {error}. Capture the Case again.") from None
    return case


def _sections(data: Any, folder: Path) -> tuple[dict[str, Any], Path | None]:
    """Return the fields of case.json, and the path of the tensor file if there is one."""
    if not isinstance(data, dict) or type(data.get("version")) is not int:
        raise ValueError(f"expected version {VERSION}")
    if data["version"] != VERSION:
        raise UsageError(
            f"{folder / CASE} has the format {data['version']}, and this minify reads the format {VERSION}.\n"
            "Capture the Case again, or use the release of minify that wrote it."
        )
    for name in (*_REQUIRED, "tensors"):
        if name not in data:
            raise ValueError(f"{name!r} is missing")
    if data["tensors"] not in (None, TENSORS):
        raise Defect(f"expected null or {TENSORS}, found {shown(data['tensors'])}", "tensors")
    sections = {}
    for name, content in data.items():
        if name in ("version", "tensors", MARK):
            continue
        if name not in _fields():
            raise ValueError(f"a Case has no field {shown(name)}")
        try:
            sections[name] = unpack(_fields()[name], content)
            CASE_FIELDS.get(name, anything)(sections[name])
        except ValueError as error:
            raise within(f".{name}", error) from None
    return sections, folder / TENSORS if data["tensors"] else None
