"""A Case as a folder: case.json, graph.json (a line for each node) and, if values are stored, tensors.safetensors.

All files are readable by a person, and loading executes and unpickles nothing.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shutil
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from minifier.case.case import Case
from minifier.case.encode import pack, unpack
from minifier.case.graph import Graph, Module, Node, tensor_keys
from minifier.case.inputs import Input, Recorded, Stored, TensorInput
from minifier.errors import CannotSave, UsageError

VERSION = 1
_REQUIRED = {"backend", "failure", "state", "script"}  # fields that every case.json has
CASE, GRAPH, TENSORS = "case.json", "graph.json", "tensors.safetensors"
ATTEMPTS = "attempts"  # scripts of the graph that did not show the failure, if none did
RESULT = "result.json"  # next to a Case's folder: a finished run
# Subfolders: Dynamo's graph of a backward graph, and AOTAutograd's ATen graph of Dynamo's graph.
FORWARD, ATEN = "forward", "aten"


@contextlib.contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """Yield a temporary path that replaces `path` once its content is on the disk. The old file stays on an error."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        yield temporary
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def write_atomically(path: Path, text: str) -> None:
    """Write the whole file, or leave the old file."""
    with written_whole(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def copy_atomically(source: Path, path: Path) -> None:
    """Copy the whole file, or leave the old file."""
    with written_whole(path) as temporary:
        shutil.copyfile(source, temporary)


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
    """Return the graph that `graph_to_text` encoded. Raises ValueError, KeyError or TypeError on bad data."""
    data = json.loads(text)
    nodes = tuple(unpack(Node, item) for item in data["nodes"])
    seen: set[str] = set()
    for node in nodes:
        for name in node.refs():
            if name not in seen:
                raise ValueError(f"node {node.name!r} reads {name!r}, which is not defined before it")
        if node.name in seen:
            raise ValueError(f"two nodes are called {node.name!r}")
        seen.add(node.name)
    if not nodes or nodes[-1].op != "output":
        raise ValueError("the last node is not an output")
    rest = data["rest"]
    return Graph(nodes, unpack(dict[str, str], rest["attributes"]), unpack(dict[str, Module], rest["modules"]))


def save(case: Case, folder: Path) -> None:
    """Write the Case and a copy of its tensor file into `folder`, which is created if needed."""
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / GRAPH, graph_to_text(case.graph))
    has_tensors = case.tensors is not None and case.tensors.exists()
    if has_tensors and case.tensors is not None and case.tensors.resolve() != (folder / TENSORS).resolve():
        copy_atomically(case.tensors, folder / TENSORS)
    data: dict[str, Any] = {"version": VERSION, "tensors": TENSORS if has_tensors else None}
    for f in dataclasses.fields(case):
        if f.name not in ("graph", "tensors"):
            data[f.name] = pack(getattr(case, f.name))
    write_atomically(folder / CASE, json.dumps(data, indent=1) + "\n")


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"{path.parent} is not a Case folder: {path.name} cannot be read ({error.strerror}).\n"
            "Give the `case` or `minimal` folder of a run's output, or that output folder itself."
        ) from None
    except UnicodeDecodeError:
        raise UsageError(f"{path} is damaged: it is not UTF-8 text. Capture the Case again.") from None


def _fields() -> dict[str, Any]:
    """Return the names and types of case.json's fields other than the inputs."""
    hints = typing.get_type_hints(Case)
    return {f.name: hints[f.name] for f in dataclasses.fields(Case) if f.name not in ("graph", "inputs", "tensors")}


def load(folder: Path) -> Case:
    """Return the Case in `folder`. Raises UsageError, naming file and defect, if a file is missing or damaged."""
    path = folder / CASE
    try:
        data = json.loads(_read(path))
        if not isinstance(data, dict) or data.get("version") != VERSION:
            raise ValueError(f"expected version {VERSION}")
        inputs = unpack(tuple[Input, ...], data["inputs"])
        rest = {name: unpack(kind, data[name]) for name, kind in _fields().items() if name in (_REQUIRED | set(data))}
        tensors = folder / TENSORS if data["tensors"] else None
        path = folder / GRAPH
        graph = graph_from_text(_read(path))
        _check(graph, inputs, tensors)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        defect = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise UsageError(f"{path} is damaged: {defect}. Capture the Case again.") from None
    return Case(graph=graph, inputs=inputs, tensors=tensors, **rest)


def _keys(path: Path) -> set[str]:
    try:
        with safe_open(str(path), framework="numpy") as file:
            return set(file.keys())
    except (SafetensorError, OSError) as error:
        raise UsageError(f"{path} is damaged: {error}. Capture the Case again.") from None


def _check(graph: Graph, inputs: tuple[Input, ...], tensors: Path | None) -> None:
    names = [node.name for node in graph.placeholders]
    if names != [i.name for i in inputs]:
        raise ValueError("the graph's placeholders and the inputs do not agree")
    needed = {i.source.key for i in inputs if isinstance(i, TensorInput) and isinstance(i.source, Stored)}
    needed.update(tensor_keys(graph))
    if needed and (tensors is None or not tensors.exists()):
        raise ValueError(f"it refers to {TENSORS}, which is not there")
    missing = sorted(needed - _keys(tensors)) if tensors is not None and tensors.exists() else []
    if missing:
        raise ValueError(f"it refers to the tensor {missing[0]!r}, which {TENSORS} does not hold")
    if any(isinstance(i, TensorInput) and isinstance(i.source, Recorded) for i in inputs):
        raise ValueError("an input refers to a value that was not saved")
