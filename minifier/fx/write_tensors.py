"""Writes a safetensors file without holding a second copy of its tensors."""

from __future__ import annotations

import ctypes
import io
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

_ALIGNMENT_BYTES = 64  # of the first tensor, as torch's allocator aligns: a mapped tensor needs no copy then
_CHUNK_BYTES = 2**24  # that are copied at once, of a tensor that is not contiguous
# The names of the dtypes that the format knows.
NATIVE_DTYPES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}


def write_tensors(path: Path, tensors: Mapping[str, torch.Tensor], metadata: Mapping[str, str]) -> None:
    """Write the tensors into a new file. Other dtypes than the native ones are written as bytes."""
    ordered = sorted(tensors, key=lambda key: (-tensors[key].element_size(), key))  # each is aligned to its elements
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    end = 0
    for key in ordered:
        tensor = tensors[key]
        size = tensor.numel() * tensor.element_size()
        name = NATIVE_DTYPES.get(tensor.dtype)
        shape = list(tensor.shape) if name else [size]
        header[key] = {"dtype": name or "U8", "shape": shape, "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header).encode()
    text += b" " * (-(8 + len(text)) % _ALIGNMENT_BYTES)
    with io.BufferedWriter(io.FileIO(path, "xb")) as file:  # a script may replace `open`
        file.write(len(text).to_bytes(8, "little") + text)
        for key in ordered:
            for part in _parts(tensors[key].detach()):
                size = part.numel() * part.element_size()
                file.write((ctypes.c_char * size).from_address(part.data_ptr()))  # numpy() would keep it from growing


def _parts(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """Yield contiguous tensors in the memory of this process, which together have the elements in order."""
    size = tensor.numel() * tensor.element_size()
    is_ready = tensor.device.type == "cpu" and tensor.is_contiguous() and not (tensor.is_conj() or tensor.is_neg())
    if size == 0:
        return
    if is_ready or size <= _CHUNK_BYTES:
        yield tensor.resolve_conj().resolve_neg().cpu().contiguous()
    elif len(tensor) == 1:
        yield from _parts(tensor[0])
    else:
        rows = max(1, _CHUNK_BYTES * len(tensor) // size)
        for start in range(0, len(tensor), rows):
            yield from _parts(tensor[start : start + rows])
