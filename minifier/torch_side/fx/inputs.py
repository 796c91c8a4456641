"""Input tensors from their descriptions, from values recorded in an eager run, and with symbolic sizes."""

from __future__ import annotations

import contextlib
import copy
import functools
import json
import shutil
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from minifier.data.case import Adapted, Drawn, Input, Recorded, ScalarInput, Stored, TensorInput, TensorMeta
from minifier.data.case.inputs import base_of_views, bases, drawn_storages
from minifier.torch_side.fx.arguments import short
from minifier.torch_side.fx.tensors import StoredTensors, flat, restrided
from minifier.torch_side.torch_private import autograd, modes

_RANDN_DTYPES = {
    *(torch.float32, torch.float64, torch.float16, torch.bfloat16),
    *(torch.complex64, torch.complex128),
}


_MAX_DISK_FRACTION = 0.5  # of the free space, for the values of a graph


class NotRecorded(KeyError):
    """The eager run did not reach this value, had no space for it, or recorded too few of its elements."""


class RecordedValues:
    """Recorded values of nodes: a file of bytes with a JSON index, read on demand."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._bytes = folder / "values.bin"
        self._index: dict[str, Any] = json.loads((folder / "values.json").read_text())

    def plus(self, folder: Path, suffix: str) -> RecordedValues:
        """Append the values of another folder, with this suffix to the names of nodes; return the values of both."""
        index = json.loads((folder / "values.json").read_text())
        with self._bytes.open("ab") as file, (folder / "values.bin").open("rb") as added:
            for name, entry in index.items():
                at = {"at": file.tell() + entry["at"]} if "at" in entry else {}
                self._index[name + suffix] = {**entry, **at}
            shutil.copyfileobj(added, file)
        (self.folder / "values.json").write_text(json.dumps(self._index))
        return RecordedValues(self.folder)

    def __contains__(self, node: str) -> bool:
        return node in self._index

    def number(self, node: str) -> Any:
        """Return the node's number, or None if none was recorded."""
        return self._index.get(node, {}).get("number")

    def layout(self, node: str) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
        """Return shape and stride of the node's tensor, or None if none was recorded."""
        entry = self._index.get(node, {})
        return (tuple(entry["shape"]), tuple(entry["stride"])) if "shape" in entry else None

    def get(self, node: str) -> torch.Tensor:
        """Return a private copy of the node's tensor. Raises NotRecorded."""
        if node not in self._index:
            raise NotRecorded(node)
        entry = self._index[node]
        dtype = getattr(torch, entry["dtype"])
        meta = TensorMeta(tuple(entry["shape"]), tuple(entry["stride"]), entry["dtype"])
        if meta.span == 0:
            return torch.empty(meta.shape, dtype=dtype, device=entry["device"])
        with self._bytes.open("rb") as file:
            file.seek(entry["at"])
            data = bytearray(file.read(entry["bytes"]))
        # Moved while still flat: a move would pack a tensor with gaps, or with elements that share memory.
        return restrided(torch.frombuffer(data, dtype=torch.uint8).clone().to(entry["device"]), meta)


class Recorder(torch.fx.Interpreter):
    """Runs a graph eagerly and writes the tensors and numbers of `wanted` nodes as they appear.

    `at` is the name of the current node. Values that do not fit into half of the free space of the folder's disk are
    left out: `left_out` is their number.
    """

    def __init__(self, module: torch.fx.GraphModule, wanted: Collection[str], folder: Path) -> None:
        super().__init__(module, garbage_collect_values=True)
        self.left_out = 0
        self._room_bytes = int(_MAX_DISK_FRACTION * shutil.disk_usage(folder).free)
        self._wanted, self._folder = frozenset(wanted), folder
        self.at = ""
        self._file = (folder / "values.bin").open("wb")
        self._index: dict[str, Any] = {}

    def run_node(self, n: torch.fx.Node) -> Any:
        self.at = n.name
        value = super().run_node(n)
        if n.name in self._wanted:
            with autograd.outside_transforms(value) as unwrapped:
                self._write(n.name, unwrapped)
        return value

    def _write(self, name: str, value: Any) -> None:
        if isinstance(value, torch.Tensor) and value.layout == torch.strided:
            stretch = flat(value.detach().resolve_conj().resolve_neg()).cpu().contiguous()
            if self._file.tell() + stretch.nbytes > self._room_bytes:
                self.left_out += 1
                return
            data = stretch.view(torch.uint8).numpy().tobytes() if stretch.numel() else b""
            self._index[name] = {
                "at": self._file.tell(),
                "bytes": len(data),
                "dtype": short(value.dtype),
                "shape": list(value.shape),
                "stride": list(value.stride()),
                "device": str(value.device),
            }
            self._file.write(data)
        elif isinstance(value, (bool, int, float)):
            self._index[name] = {"number": value}

    def record(self, inputs: Sequence[Any]) -> None:
        """Run the graph and write the index, also of a partial run. Raises whatever the graph raises."""
        try:
            self.run(*inputs)
        finally:
            self._file.close()
            (self._folder / "values.json").write_text(json.dumps(self._index))


def _drawn(meta: TensorMeta, drawn: Drawn) -> torch.Tensor:
    """Draw values exactly like the repro. A tensor with gaps is a view of a flat tensor."""
    if not meta.has_default_stride:
        whole = replace(meta, shape=(meta.span,), stride=(1,))
        return _drawn(whole, drawn).as_strided(meta.shape, meta.stride)
    dtype, device, shape = getattr(torch, meta.dtype), meta.device, meta.shape
    if drawn.how == "list":
        return torch.tensor(drawn.values, dtype=dtype, device=device).reshape(shape)
    if drawn.how == "zeros":
        return torch.zeros(shape, dtype=dtype, device=device)
    if drawn.how == "no memory":
        return autograd.zeros_without_memory(shape, dtype, device)
    if drawn.how == "ones":
        return torch.ones(shape, dtype=dtype, device=device)
    if drawn.how == "full":
        return torch.full(shape, drawn.low or 0.0, dtype=dtype, device=device)
    if drawn.how == "bools":
        return torch.rand(shape, device=device) > 0.5
    if drawn.how == "randint":
        return torch.randint(int(drawn.low or 0), int(drawn.high or 1), shape, dtype=dtype, device=device)
    if drawn.how == "rand":
        return (torch.rand(shape, device=device) * drawn.spread + float(drawn.low or 0.0)).to(dtype)
    if dtype in _RANDN_DTYPES:
        return torch.randn(shape, dtype=dtype, device=device)
    return torch.randn(shape, device=device).to(dtype)


def make_inputs(
    inputs: Sequence[Input],
    tensors: StoredTensors,
    recorded: RecordedValues | None,
    *,
    own: bool = True,
    ready: Callable[[Input], torch.Tensor | None] = lambda _item: None,
) -> list[Any]:
    """Return the inputs after `torch.manual_seed(0)`, whatever modes are active. Shared storages stay shared.

    own: copy stored values, so that no two calls share memory. A child that uses its inputs once needs no copies.
    ready: returns an input that already exists, else None.
    """
    if all(isinstance(item, ScalarInput) or item.meta.device == "cpu" for item in inputs):
        torch.default_generator.manual_seed(0)  # the same, without querying every kind of device
    else:
        torch.manual_seed(0)

    @functools.cache
    def stored(key: str, device: str) -> torch.Tensor:
        copied = own or torch.is_inference_mode_enabled()  # a copy made in inference mode is an inference tensor
        tensor = tensors.get(key).to(device)
        return tensor.clone() if copied and device == "cpu" else tensor

    values: dict[str, Any] = {}
    views = bases(inputs)
    of_storages = drawn_storages(inputs)
    drawn: dict[str, torch.Tensor] = {}

    def generated(source: Drawn) -> torch.Tensor:
        assert source.storage is not None, "views of a storage"
        if source.storage not in drawn:
            drawn[source.storage] = _drawn(base_of_views(of_storages[source.storage]), source)
        return drawn[source.storage]

    with modes.without_modes():
        for item in sorted(inputs, key=lambda item: item.name in views):
            value = ready(item)
            with (
                torch.inference_mode() if isinstance(item, TensorInput) and item.inference else contextlib.nullcontext()
            ):
                if value is None and item.name in views:
                    value = _view(values[views[item.name].name], item)
                values[item.name] = _make(item, stored, generated, recorded) if value is None else value
    return [values[item.name] for item in inputs]


def _view(base: torch.Tensor, item: Input) -> torch.Tensor | None:
    """Return the input as a view of its base, or None if the view would differ in requires_grad or is_leaf."""
    assert isinstance(item, TensorInput), "a view is a tensor"
    meta = item.meta
    with torch.set_grad_enabled(not item.leaf):
        view = base.as_strided(meta.shape, meta.stride, base.storage_offset() + meta.offset)
    return view if view.requires_grad == meta.requires_grad and view.is_leaf == item.leaf else None


def without_sharing(values: Sequence[Any]) -> list[Any]:
    """Return copies of the tensors, each with memory of its own, and the same strides and offsets."""
    with modes.without_modes():
        return [
            copy.deepcopy(value.detach()).requires_grad_(value.requires_grad)
            if isinstance(value, torch.Tensor)
            else value
            for value in values
        ]


def is_as_stored(item: Input) -> bool:
    """Tell whether the input is a stored tensor itself, which no op has to build."""
    return (
        isinstance(item, TensorInput)
        and isinstance(item.source, Stored)
        and not (item.source.shared or item.source.offset or item.inference or item.storage)
        and (item.parameter or not item.meta.requires_grad)
        and item.meta.is_contiguous
        and item.meta.device == "cpu"
    )


def _make(
    item: Input,
    stored: Callable[[str, str], torch.Tensor],
    generated: Callable[[Drawn], torch.Tensor],
    recorded: RecordedValues | None,
) -> Any:
    if isinstance(item, ScalarInput):
        return item.value
    meta, source = item.meta, item.source
    with torch.no_grad():
        if isinstance(source, Drawn) and source.storage is not None:
            tensor = restrided(generated(source), meta, meta.offset)
        elif isinstance(source, Drawn):
            tensor = restrided(_drawn(item.whole, source), meta, meta.offset) if item.storage else _drawn(meta, source)
        elif isinstance(source, Adapted):
            tensor = _adapted(_real(source.meta, source.of, stored, recorded), meta)
        else:
            tensor = _real(meta, source, stored, recorded)
        if item.storage and not isinstance(source, (Drawn, Stored)):
            tensor = restrided(tensor.new_zeros(item.storage), meta, meta.offset).copy_(tensor)
    return _with_grad(tensor, item)


def _real(
    meta: TensorMeta,
    source: Stored | Recorded,
    stored: Callable[[str, str], torch.Tensor],
    recorded: RecordedValues | None,
) -> torch.Tensor:
    """Return values that the script had."""
    if isinstance(source, Stored):
        return _stored(meta, source, stored(source.key, meta.device))
    if recorded is None:
        raise KeyError(source.node)
    values = recorded.get(source.node)
    matches = (tuple(values.shape), values.dtype) == (meta.shape, getattr(torch, meta.dtype))
    return values if matches else _adapted(values, meta)  # a pass may have changed sizes since


def _adapted(values: torch.Tensor, meta: TensorMeta) -> torch.Tensor:
    """Return the leading values of each dimension, with the dtype and stride of `meta`.

    Raises NotRecorded if a dimension has too few."""
    while values.dim() > len(meta.shape):
        values = values[0]
    if values.dim() < len(meta.shape) or any(a < b for a, b in zip(values.shape, meta.shape, strict=True)):
        raise NotRecorded(f"values of {tuple(values.shape)} for {meta.shape}")
    corner = values[tuple(slice(size) for size in meta.shape)].to(getattr(torch, meta.dtype))
    return torch.empty_strided(meta.shape, meta.stride, dtype=corner.dtype, device=meta.device).copy_(corner)


def _stored(meta: TensorMeta, source: Stored, tensor: torch.Tensor) -> torch.Tensor:
    if source.shared:
        return restrided(tensor, meta, meta.offset)
    if source.offset:
        return restrided(tensor.flatten(), meta, source.offset)
    if tuple(tensor.shape) == meta.shape and tensor.dtype == getattr(torch, meta.dtype):
        return tensor
    return restrided(tensor.flatten(), meta)


def _with_grad(tensor: torch.Tensor, item: TensorInput) -> Any:
    if item.parameter:
        return torch.nn.Parameter(tensor, requires_grad=item.meta.requires_grad)
    if not item.meta.requires_grad:
        return tensor
    if item.leaf:
        return tensor.requires_grad_(True)
    # A clone requires grad without being a leaf, like an op's result, so in-place ops are allowed. It loses gaps and
    # overlaps: a tensor with them becomes a view of its cloned storage.
    if item.storage:
        whole = tensor.as_strided((item.storage,), (1,), 0).requires_grad_(True).clone()
        return whole.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
    if item.meta.span == item.meta.elements:
        return tensor.requires_grad_(True).clone()
    return flat(tensor).requires_grad_(True).clone().as_strided(tensor.shape, tensor.stride())
