"""The file of stored values: what its header says of each tensor, and whether that is enough for the Case."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from minifier.case.case import Case
from minifier.case.defects import Defect, within
from minifier.case.files import checked_file
from minifier.case.graph import tensor_keys
from minifier.case.inputs import Adapted, Recorded, Stored, TensorInput
from minifier.case.schema import size
from minifier.case.texts import dtype, item_bytes, shown
from minifier.case.values import TensorMeta, is_permuted
from minifier.errors import UsageError

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
        name, shape, *strides = found
        dtype(name)
        for sizes in (shape, *filter(None, strides)):
            if not all(type(item) is int for item in sizes):
                raise ValueError("expected integers")
            for item in sizes:
                size(item)
        if strides and strides[0] and (len(strides[0]) != len(shape) or not is_permuted(shape, strides[0])):
            raise ValueError("the strides leave gaps, or overlap")
    except (ValueError, TypeError, RecursionError) as error:
        raise within(f"__metadata__[{shown(key)}]", error) from None
