"""Tensors in a safetensors file, with their strides, offsets and shared storages."""

from __future__ import annotations

import contextlib
import ctypes
import io
import json
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open

from minifier.data.case.inputs import Stored
from minifier.data.case.store import written_whole
from minifier.data.case.values import TensorMeta, is_permuted
from minifier.errors import CannotSave

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

ALIGNMENT_BYTES = 64  # of torch's CPU allocator, and of a file's first tensor: a mapped tensor needs no copy then
_MAX_OFFSET = 1024  # elements; a larger one would make the file large
_MAX_WINDOWED_BYTES = 2**28  # of a storage that is kept whole
_ORDINARY_TYPES = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)


def refuse_odd(tensor: torch.Tensor, description: str) -> None:
    """Raise CannotSave for tensor subclasses, and for tensors that are quantised or not strided."""
    if type(tensor) not in _ORDINARY_TYPES:
        kind = type(tensor)
        raise CannotSave(
            f"{description} is a {kind.__module__}.{kind.__qualname__}, a tensor subclass, which cannot be saved yet"
        )
    if tensor.layout != torch.strided or tensor.is_quantized:
        layout = "quantised" if tensor.is_quantized else str(tensor.layout).removeprefix("torch.")
        raise CannotSave(f"{description} is a {layout} tensor, which cannot be saved yet")


def flat(tensor: torch.Tensor) -> torch.Tensor:
    """Return the range of storage that the tensor covers, as a contiguous 1-D tensor."""
    if tensor.numel() == 0:
        return tensor.new_empty(0)
    count = 1 + sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride(), strict=True))
    return tensor.as_strided((count,), (1,), tensor.storage_offset())


def restrided(storage_range: torch.Tensor, meta: TensorMeta, offset: int = 0) -> torch.Tensor:
    """Return a view of a flat storage range with the shape and stride of `meta`: the inverse of `flat`."""
    dtype = getattr(torch, meta.dtype)
    if storage_range.dtype != dtype:
        storage_range = storage_range.view(dtype)
    return storage_range.as_strided(meta.shape, meta.stride, storage_range.storage_offset() + offset)


def _offset_to_keep(tensor: torch.Tensor) -> int:
    """Return the number of elements to store ahead of the input, which gives it the same alignment as in the script.

    A small offset is kept. Otherwise, for a large offset or a misaligned storage, the smallest offset with the same
    alignment is used.
    """
    if tensor.device.type != "cpu" or tensor.numel() == 0:
        return 0
    offset = int(tensor.storage_offset())
    return offset if 0 < offset <= _MAX_OFFSET else tensor.data_ptr() % ALIGNMENT_BYTES // tensor.element_size()


def storage_elements(tensor: torch.Tensor) -> int:
    """Return the number of elements of the tensor's storage, or 0 if only the tensor itself is kept.

    The tensor suffices if it covers the storage or is empty. Storages on devices and very large storages are not kept.
    """
    if tensor.layout != torch.strided or tensor.device.type != "cpu" or tensor.numel() == 0:
        return 0
    size = tensor.untyped_storage().nbytes()
    count = size // tensor.element_size()
    return count if count > flat(tensor).numel() and size <= _MAX_WINDOWED_BYTES else 0


def _whole_storage(tensor: torch.Tensor) -> torch.Tensor:
    count = tensor.untyped_storage().nbytes() // tensor.element_size()
    return tensor.detach().as_strided((count,), (1,), 0)


def _own_base(names: list[str], inputs: dict[str, torch.Tensor]) -> str | None:
    """Return the base of all other inputs, if it covers the storage in order, else None."""
    for name in names:
        base, others = inputs[name], [inputs[other] for other in names if other != name]
        covers = base.is_contiguous() and base.nbytes == base.untyped_storage().nbytes()
        if covers and all(other._base is base and other.dtype == base.dtype for other in others):
            return name
    return None


class TensorFile:
    """Collects tensors, then writes them into a file. Before `write`, only inputs with an offset are copied."""

    def __init__(self) -> None:
        self._tensors: dict[str, torch.Tensor] = {}

    def extended(self) -> TensorFile:
        """Return a copy that can grow independently."""
        copy = TensorFile()
        copy._tensors.update(self._tensors)
        return copy

    def get(self, key: str) -> torch.Tensor:
        """Return the tensor added under `key`."""
        return self._tensors[key]

    def add(self, key: str, tensor: torch.Tensor) -> str:
        """Add the tensor under `key` and return the key."""
        refuse_odd(tensor, key)
        self._tensors[key] = tensor
        return key

    def add_inputs(self, inputs: dict[str, torch.Tensor], windows: Collection[str] = ()) -> dict[str, Stored]:
        """Add the inputs, each shared storage once, and return how each input is stored.

        An input in `windows` is added with its whole storage, not only its own elements.
        """
        groups: dict[int, list[str]] = {}
        for name, tensor in inputs.items():
            refuse_odd(tensor, f"the input {name}")
            address = tensor.untyped_storage().data_ptr()
            groups.setdefault(address if address else id(tensor), []).append(name)
        stored = {}
        for names in groups.values():
            first = inputs[names[0]]
            if len(names) == 1 and names[0] in windows:
                self._tensors[names[0]] = _whole_storage(first)
                stored[names[0]] = Stored(names[0], offset=int(first.storage_offset()))
                continue
            if len(names) > 1 and (base := _own_base(names, inputs)):
                stored[base] = Stored(self.add(base, inputs[base]))
                stored |= {name: Stored(base, shared=True, base=base) for name in names if name != base}
                continue
            if len(names) == 1 and (offset := _offset_to_keep(first)):
                # After zeros: the script's own elements there are not the call's.
                elements = flat(first.detach())
                self._tensors[names[0]] = torch.cat([elements.new_zeros(offset), elements])
                stored[names[0]] = Stored(names[0], offset=offset)
                continue
            if len(names) == 1 and (first.is_contiguous() or first.numel() == 0):
                stored[names[0]] = Stored(self.add(names[0], first))
                continue
            key = f"storage of {', '.join(names[:3])}" if len(names) > 1 else names[0]
            if len(names) == 1:
                self._tensors[key] = flat(first.detach())
            else:
                # Views of one tensor have to stay that; other tensors of one storage have to stay without it.
                together = all(inputs[n]._base is first._base and inputs[n].dtype == first.dtype for n in names)
                whole = torch.empty(0, dtype=torch.uint8, device=first.device).set_(first.untyped_storage())
                self._tensors[key] = _whole_storage(first) if together and first._base is not None else whole
            for name in names:
                stored[name] = Stored(key, shared=len(names) > 1)
        return stored

    def write(self, path: Path) -> Path | None:
        """Write the file and return its path, or None if there are no tensors."""
        if not self._tensors:
            return None
        formats = {}
        for key, tensor in self._tensors.items():
            stride = list(tensor.stride()) if is_permuted(tensor.shape, tensor.stride()) else None
            dtype = str(tensor.dtype).removeprefix("torch.")
            if is_stored_as_bytes(dtype) or stride is not None:
                formats[key] = json.dumps([dtype, list(tensor.shape), stride])
        with written_whole(path) as temporary:
            write_tensors(temporary, self._tensors, formats)
        return path


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Compute with a single thread in the block. OpenMP's others do not survive a fork, which waits for them forever at
    its first op of several threads."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def is_stored_as_bytes(dtype: str) -> bool:
    """Tell whether the file stores tensors of this dtype as bytes."""
    return getattr(torch, dtype) not in NATIVE_DTYPES


def _read(file: Any, key: str) -> torch.Tensor:
    """Read a tensor with its stride, aligned like torch's own allocations.

    The file aligns tensors to 8 bytes only. Compiled code may assume more and crash.
    """
    tensor: torch.Tensor = file.get_tensor(key)
    if tensor.data_ptr() % ALIGNMENT_BYTES:
        tensor = tensor.clone()
    stored_format = (file.metadata() or {}).get(key)
    if stored_format is None:
        return tensor
    dtype, shape, *strides = json.loads(stored_format)
    tensor = tensor.view(getattr(torch, dtype)).reshape(shape)
    if not strides or strides[0] is None:
        return tensor
    return torch.empty_strided(shape, strides[0], dtype=tensor.dtype).copy_(tensor)


class StoredTensors:
    """Tensors of a Case's file, loaded on demand and kept by key.

    The file is mapped once, privately. Misaligned tensors are copied.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._file: Any = None
        self._loaded: dict[str, torch.Tensor] = {}

    def get(self, key: str) -> torch.Tensor:
        """Return the stored tensor. Raises KeyError."""
        if key not in self._loaded:
            if self._path is None:
                raise KeyError(key)
            if self._file is None:
                self._file = safe_open(str(self._path), framework="pt")
            if key not in set(self._file.keys()):
                raise KeyError(key)
            self._loaded[key] = _read(self._file, key)
        return self._loaded[key]

    def load_all(self) -> None:
        """Read every tensor now, so that forked children share the pages."""
        if self._path is not None:
            with safe_open(str(self._path), framework="pt") as file:
                for key in list(file.keys()):
                    self._loaded.setdefault(key, _read(file, key))


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
    text += b" " * (-(8 + len(text)) % ALIGNMENT_BYTES)
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
