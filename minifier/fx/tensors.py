"""Tensors to a safetensors file and back, with strides, offsets and shared storage kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file

from minifier.case.inputs import Stored
from minifier.case.store import written_whole
from minifier.case.values import TensorMeta, is_permuted
from minifier.errors import CannotSave

ALIGNMENT_BYTES = 64  # of what torch's allocator gives on CPU
_PLAIN = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)
# Types that safetensors knows; others are stored as bytes, their type being in the Case.
_KNOWN = {
    torch.float64,
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.int32,
    torch.int16,
    torch.int8,
    torch.uint8,
    torch.bool,
}


def refuse_odd(tensor: torch.Tensor, what: str) -> None:
    """Raises CannotSave for a tensor that is more than strided numbers."""
    if type(tensor) not in _PLAIN:
        kind = type(tensor)
        raise CannotSave(
            f"{what} is a {kind.__module__}.{kind.__qualname__}, a tensor subclass, which cannot be saved yet"
        )
    if tensor.layout != torch.strided or tensor.is_quantized:
        layout = "quantised" if tensor.is_quantized else str(tensor.layout).removeprefix("torch.")
        raise CannotSave(f"{what} is a {layout} tensor, which cannot be saved yet")


def flat(tensor: torch.Tensor) -> torch.Tensor:
    """The stretch of storage that the tensor covers, one-dimensional and contiguous."""
    if tensor.numel() == 0:
        return tensor.new_empty(0)
    count = 1 + sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride(), strict=True))
    return tensor.as_strided((count,), (1,), tensor.storage_offset())


def restrided(stretch: torch.Tensor, meta: TensorMeta, offset: int = 0) -> torch.Tensor:
    """The inverse of `flat`: a tensor of the given shape and stride over a stretch of storage."""
    dtype = getattr(torch, meta.dtype)
    if stretch.dtype != dtype:
        stretch = stretch.view(dtype)
    return stretch.as_strided(meta.shape, meta.stride, stretch.storage_offset() + offset)


class TensorFile:
    """Collects tensors, then writes them in one file. Nothing is copied before `write`."""

    def __init__(self) -> None:
        self._tensors: dict[str, torch.Tensor] = {}

    def extended(self) -> TensorFile:
        """Another, with what this has so far."""
        made = TensorFile()
        made._tensors.update(self._tensors)
        return made

    def get(self, key: str) -> torch.Tensor:
        """The tensor that was remembered under the key."""
        return self._tensors[key]

    def add(self, key: str, tensor: torch.Tensor) -> str:
        """Remembers the tensor's values under `key` and gives the key back."""
        refuse_odd(tensor, key)
        self._tensors[key] = tensor
        return key

    def add_inputs(self, inputs: dict[str, torch.Tensor]) -> dict[str, Stored]:
        """Remembers inputs, those that share a storage together; tells how each is stored."""
        groups: dict[int, list[str]] = {}
        for name, tensor in inputs.items():
            refuse_odd(tensor, f"the input {name}")
            address = tensor.untyped_storage().data_ptr()
            groups.setdefault(address if address else id(tensor), []).append(name)
        stored = {}
        for names in groups.values():
            first = inputs[names[0]]
            if len(names) == 1 and (first.is_contiguous() or first.numel() == 0):
                stored[names[0]] = Stored(self.add(names[0], first))
                continue
            key = f"storage of {', '.join(names[:3])}" if len(names) > 1 else names[0]
            if len(names) == 1:
                self._tensors[key] = flat(first.detach())
            else:
                whole = torch.empty(0, dtype=torch.uint8, device=first.device).set_(first.untyped_storage())
                self._tensors[key] = whole
            for name in names:
                stored[name] = Stored(key, shared=len(names) > 1)
        return stored

    def write(self, path: Path) -> Path | None:
        """Writes the file, or nothing if there are no tensors."""
        if not self._tensors:
            return None
        ready, form = {}, {}
        for key, tensor in self._tensors.items():
            value = tensor.detach().resolve_conj().resolve_neg().cpu()
            stride = list(value.stride()) if is_permuted(value.shape, value.stride()) else None
            value = value.contiguous()
            if value.dtype not in _KNOWN or stride is not None:
                form[key] = json.dumps([str(value.dtype).removeprefix("torch."), list(value.shape), stride])
            if value.dtype not in _KNOWN:
                value = value.flatten().view(torch.uint8)
            ready[key] = (
                value.clone() if value.untyped_storage().data_ptr() == tensor.untyped_storage().data_ptr() else value
            )
        with written_whole(path) as beside:
            save_file(ready, beside, metadata=form or None)
        return path


def is_stored_as_bytes(dtype: str) -> bool:
    """Whether the file has only the bytes of tensors of this type."""
    return getattr(torch, dtype) not in _KNOWN


def _read(file: Any, key: str) -> torch.Tensor:
    """Read a tensor with its stride, at an address at which torch itself would allocate it.

    The file has tensors at multiples of 8 bytes. Compiled code may load from there as if it were aligned, and dies.
    """
    tensor: torch.Tensor = file.get_tensor(key)
    if tensor.data_ptr() % ALIGNMENT_BYTES:
        tensor = tensor.clone()
    form = (file.metadata() or {}).get(key)
    if form is None:
        return tensor
    dtype, shape, *strides = json.loads(form)
    tensor = tensor.view(getattr(torch, dtype)).reshape(shape)
    if not strides or strides[0] is None:
        return tensor
    return torch.empty_strided(shape, strides[0], dtype=tensor.dtype).copy_(tensor)


class StoredTensors:
    """Tensors of a Case's file, loaded when asked for and shared by those who share a key.

    The file is mapped once, privately. A tensor that lies badly aligned in it is copied.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._file: Any = None
        self._loaded: dict[str, torch.Tensor] = {}

    def get(self, key: str) -> torch.Tensor:
        """The tensor as stored; raises KeyError if the file has no such key."""
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
        """Reads every tensor now, so that forked children share the pages."""
        if self._path is not None:
            with safe_open(str(self._path), framework="pt") as file:
                for key in list(file.keys()):
                    self._loaded.setdefault(key, _read(file, key))
