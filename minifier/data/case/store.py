"""A Case as a folder: case.json, graph.json (a line for each node) and stored tensors; or as text for a process."""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import json
import math
import os
import pickle
import re
import shutil
import typing
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from minifier.data.case.case import Case
from minifier.data.case.files import MARK, checked_file, is_made_here, marked, read_text
from minifier.data.case.graph import Graph, tensor_keys
from minifier.data.case.inputs import Adapted, Recorded, Stored, TensorInput, check_inputs
from minifier.data.case.serial import Json, pack, parsed, unpack, unpack_fields
from minifier.data.case.values import TensorMeta, is_permuted
from minifier.data.fields import Defect, Dtype, Natural, item_bytes, shown, within
from minifier.errors import CannotSave, UsageError

VERSION = 4  # of the files of a Case
CASE, GRAPH = "case.json", "graph.json"
ARTIFACTS = "artifacts"  # what the compiler made of the minimal Case
ATTEMPTS = "attempts"  # scripts of the graph that did not show the failure, if none did
RESULT = "result.json"  # next to a Case's folder: a finished run
FINISHED = "finished.json"  # beside it: all that reports are made of
RECORD = "finished"  # the kind of its mark


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


def read_json(path: Path) -> Json:
    """Return the JSON value in a file; None if there is no such file, or it is damaged."""
    try:
        return parsed(read_text(path))
    except (OSError, ValueError):
        return None


def is_own(folder: Path) -> bool:
    """Whether this user's minify wrote the Case in `folder` on this machine, and nobody has changed it since."""
    try:
        graph = read_text(folder / GRAPH)
    except (OSError, ValueError):
        return False
    return is_made_here("case", read_json(folder / CASE), graph.encode())


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
        path = folder / CASE
        case: Case = unpack_fields(Case, sections, graph=graph, tensors=tensors)
        check_inputs(graph, case.inputs)
        check_tensors(case)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is damaged: {error}. Capture the Case again.") from None
    return case


def _sections(data: Any, folder: Path) -> tuple[dict[str, Any], Path | None]:
    """Return the Case's other fields as JSON, and the path of the tensor file if there is one."""
    if not isinstance(data, dict) or type(data.get("version")) is not int:
        raise ValueError(f"expected version {VERSION}")
    if data["version"] != VERSION:
        raise UsageError(
            f"{folder / CASE} has the format {data['version']}, and this minify reads the format {VERSION}.\n"
            "Capture the Case again, or use the release of minify that wrote it."
        )
    if data.get("tensors") not in (None, TENSORS):
        raise Defect(f"expected null or {TENSORS}, found {shown(data['tensors'])}", "tensors")
    tensors = folder / TENSORS if data.get("tensors") else None
    return {name: value for name, value in data.items() if name not in ("version", "tensors", MARK)}, tensors


TENSORS = "tensors.safetensors"
_MAX_CHARACTERS = 300  # of a message of safetensors, which may quote a whole header


def check_tensors(case: Case) -> None:
    """Raise ValueError unless each stored value that the Case names is in its file, with as many bytes as it takes.

    Raises UsageError for a damaged file.
    """
    inputs = list(_inputs(case))
    keys = {item.key for _, item, _ in inputs if isinstance(item, Stored)}
    keys.update(key for graph in case.graphs for key in tensor_keys(graph))
    for place, source, _ in inputs:
        if isinstance(source, Recorded):
            raise Defect("an input refers to a value that was not saved", place)
    path = case.tensors
    if path is None or not path.exists():
        if keys:
            raise ValueError(f"it refers to {TENSORS}, which is not there")
        return
    stored = _stored_bytes(path)
    missing = sorted(keys - stored.keys())
    if missing:
        raise ValueError(f"it refers to the tensor {shown(missing[0])}, which {TENSORS} does not hold")
    for place, source, needed in inputs:
        if isinstance(source, Stored) and stored[source.key] < needed:
            raise Defect(f"expected {needed} bytes in {TENSORS}, found {stored[source.key]}", place)


def _inputs(case: Case) -> Iterator[tuple[str, Stored | Recorded, int]]:
    """Yield (place, source, bytes that are needed) of each input whose values are not drawn."""
    groups = [("inputs", case.inputs), *((f"before[{i}].inputs", call.inputs) for i, call in enumerate(case.before))]
    for name, inputs in groups:
        for position, item in enumerate(inputs):
            if not isinstance(item, TensorInput):
                continue
            source, meta = item.source, item.meta
            if isinstance(source, Adapted):
                yield f"{name}[{position}].source.of", source.of, _needed(source.meta, source.of, 0)
            elif isinstance(source, (Stored, Recorded)):
                yield f"{name}[{position}].source", source, _needed(meta, source, item.storage)


def _needed(meta: TensorMeta, source: Stored | Recorded, storage: int) -> int:
    """Return the number of bytes under the key that the tensor takes; a view of a base takes the base's."""
    if not isinstance(source, Stored) or source.base is not None:
        return 0
    if storage:
        elements = storage
    elif source.shared:
        elements = meta.offset + meta.span
    elif source.contiguous:
        elements = meta.elements
    else:
        elements = source.offset + meta.span
    return elements * item_bytes(meta.dtype)


def _stored_bytes(path: Path) -> dict[str, int]:
    """Return the size of each tensor in the file. Raises UsageError for a damaged file, or something else than one."""
    try:
        whole = checked_file(path)
        with safe_open(str(path), framework="numpy") as file:
            for key, stored_format in (file.metadata() or {}).items():
                _check_format(key, stored_format)
            sizes = {key: _bytes_of(file.get_slice(key)) for key in file.keys()}  # noqa: SIM118 - it is no mapping
    except (SafetensorError, OSError, ValueError) as error:
        raise UsageError(f"{path} is damaged: {str(error)[:_MAX_CHARACTERS]}. Capture the Case again.") from None
    return {key: min(number, whole) for key, number in sizes.items()}


_BITS = {"BOOL": 8, "C64": 64}  # of an element; the other names end with their number of bits, or go on after it


def _bytes_of(header: Any) -> int:
    name: str = header.get_dtype()
    digits = "".join(c for c in name.partition("_")[0] if c.isdigit())
    return int(math.prod(header.get_shape())) * _BITS.get(name, int(digits or 8)) // 8


def _check_format(key: str, text: str) -> None:
    """Raise ValueError unless the text is the dtype, the shape and the stride of a tensor, which fills its memory."""
    try:
        found = json.loads(text)
        if not isinstance(found, list) or len(found) not in (2, 3):
            raise ValueError("expected a dtype, a shape and a stride")
        unpack(Dtype, found[0])
        shape, *strides = (unpack(tuple[Natural, ...], sizes or []) for sizes in found[1:])
        if strides and strides[0] and (len(strides[0]) != len(shape) or not is_permuted(shape, strides[0])):
            raise ValueError("the strides leave gaps, or overlap")
    except (ValueError, TypeError, RecursionError) as error:
        raise within(f"__metadata__[{shown(key)}]", error) from None


def pickled(case: Case) -> str:
    """Return the Case as text, for another process of this run on the same Case."""
    return base64.b64encode(pickle.dumps(case)).decode()


def unpickled(text: str, base: Case) -> Case:
    """Return a candidate that `pickled` encoded. It shares with the base the tensor file, and all that is equal.

    A probe knows nodes and inputs by their identity: tensors of theirs are made once, and parts of a candidate's key.
    """
    case: Case = pickle.loads(base64.b64decode(text))
    graph = dataclasses.replace(case.graph, nodes=_shared(case.graph.nodes, base.graph.nodes))
    return dataclasses.replace(case, graph=graph, inputs=_shared(case.inputs, base.inputs), tensors=base.tensors)


def _shared(items: Sequence[Any], base: Sequence[Any]) -> tuple[Any, ...]:
    own = {item.name: item for item in base}
    return tuple(own[item.name] if own.get(item.name) == item else item for item in items)
