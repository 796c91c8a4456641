"""Input tensors made from their description, and values recorded while the whole graph ran eagerly."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from minifier.case.inputs import Adapted, Drawn, Input, Recorded, ScalarInput, Stored, TensorInput
from minifier.case.values import TensorMeta
from minifier.fx.node_arguments import short
from minifier.fx.tensors import StoredTensors, flat, restrided
from minifier.torch_private import outside_transforms, without_modes


class NotRecorded(KeyError):
    """The graph, run eagerly, did not come to this value."""


class RecordedValues:
    """Values of nodes in one file of bytes with an index beside it, mapped into memory when asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._bytes = folder / "values.bin"
        self._index: dict[str, Any] = json.loads((folder / "values.json").read_text())

    def __contains__(self, node: str) -> bool:
        return node in self._index

    def number(self, node: str) -> Any:
        """The number that the node evaluated to; None if it was none, or not recorded."""
        return self._index.get(node, {}).get("number")

    def layout(self, node: str) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
        """Shape and stride of the tensor that the node evaluated to; None if it was none, or not recorded."""
        entry = self._index.get(node, {})
        return (tuple(entry["shape"]), tuple(entry["stride"])) if "shape" in entry else None

    def get(self, node: str) -> torch.Tensor:
        """A private copy of the tensor that the node evaluated to; raises NotRecorded if there is none."""
        if node not in self._index:
            raise NotRecorded(node)
        entry = self._index[node]
        dtype = getattr(torch, entry["dtype"])
        meta = TensorMeta(tuple(entry["shape"]), tuple(entry["stride"]), entry["dtype"])
        if meta.span == 0:
            return torch.empty(meta.shape, dtype=dtype)
        with self._bytes.open("rb") as file:
            file.seek(entry["at"])
            data = bytearray(file.read(entry["bytes"]))
        return restrided(torch.frombuffer(data, dtype=torch.uint8).clone(), meta).to(entry["device"])


class Recorder(torch.fx.Interpreter):
    """Runs a graph eagerly (`at` is the node it is at) and writes the tensors and numbers that `wanted` nodes
    evaluate to as they appear."""

    def __init__(self, module: torch.fx.GraphModule, wanted: Collection[str], folder: Path) -> None:
        super().__init__(module, garbage_collect_values=True)
        self._wanted, self._folder = frozenset(wanted), folder
        self.at = ""
        self._file = (folder / "values.bin").open("wb")
        self._index: dict[str, Any] = {}

    def run_node(self, n: torch.fx.Node) -> Any:
        self.at = n.name
        value = super().run_node(n)
        if n.name in self._wanted:
            with outside_transforms(value) as seen:
                self._write(n.name, seen)
        return value

    def _write(self, name: str, value: Any) -> None:
        if isinstance(value, torch.Tensor) and value.layout == torch.strided:
            stretch = flat(value.detach().resolve_conj().resolve_neg()).cpu().contiguous()
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
        """Runs, and writes the index, of what there is where the graph raises; raises that then."""
        try:
            self.run(*inputs)
        finally:
            self._file.close()
            (self._folder / "values.json").write_text(json.dumps(self._index))


def _drawn(meta: TensorMeta, drawn: Drawn) -> torch.Tensor:
    """Values drawn as the repro will draw them; a tensor with gaps is a view of one drawn flat."""
    if not meta.is_contiguous:
        whole = replace(meta, shape=(meta.span,), stride=(1,))
        return _drawn(whole, drawn).as_strided(meta.shape, meta.stride)
    dtype, device, shape = getattr(torch, meta.dtype), meta.device, meta.shape
    if drawn.how == "list":
        return torch.tensor(drawn.values, dtype=dtype, device=device).reshape(shape)
    if drawn.how == "zeros":
        return torch.zeros(shape, dtype=dtype, device=device)
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
    if dtype in (
        torch.float32,
        torch.float64,
        torch.float16,
        torch.bfloat16,
        torch.complex64,
        torch.complex128,
    ):
        return torch.randn(shape, dtype=dtype, device=device)
    return torch.randn(shape, device=device).to(dtype)


def _none_ready(_item: Input) -> None:
    return None


def make_inputs(
    inputs: Sequence[Input],
    tensors: StoredTensors,
    recorded: RecordedValues | None,
    *,
    own: bool = True,
    ready: Callable[[Input], torch.Tensor | None] = _none_ready,
) -> list[Any]:
    """Inputs after `torch.manual_seed(0)`, whatever modes are on; those that share a storage share one.

    With `own`, stored values are copied, so that no two calls share memory. Without, this call gets the
    stored tensors themselves: enough for a child that makes its inputs once. `ready` has inputs that are made already.
    """
    if all(isinstance(item, ScalarInput) or item.meta.device == "cpu" for item in inputs):
        torch.default_generator.manual_seed(0)  # the same, without a look at every kind of device
    else:
        torch.manual_seed(0)
    shared: dict[str, torch.Tensor] = {}

    def held(key: str) -> torch.Tensor:
        if key not in shared:
            copied = own or torch.is_inference_mode_enabled()  # only what is made there is an inference tensor
            shared[key] = tensors.get(key).clone() if copied else tensors.get(key)
        return shared[key]

    made = []
    with without_modes():
        for item in inputs:
            done = ready(item)
            if done is not None:
                made.append(done)
            elif isinstance(item, TensorInput) and item.inference:
                with torch.inference_mode():
                    made.append(_make(item, held, recorded))
            else:
                made.append(_make(item, held, recorded))
    return made


def is_as_stored(item: Input) -> bool:
    """Whether the input is a stored tensor as it is, which takes no op to make."""
    return (
        isinstance(item, TensorInput)
        and isinstance(item.source, Stored)
        and not (item.source.shared or item.inference)
        and (item.parameter or not item.meta.requires_grad)
        and item.meta.is_contiguous
        and item.meta.device == "cpu"
    )


def _make(item: Input, held: Callable[[str], torch.Tensor], recorded: RecordedValues | None) -> Any:
    if isinstance(item, ScalarInput):
        return item.value
    meta, source = item.meta, item.source
    with torch.no_grad():
        if isinstance(source, Drawn):
            made = _drawn(meta, source)
        elif isinstance(source, Adapted):
            made = _adapted(_real(source.meta, source.of, held, recorded), meta)
        else:
            made = _real(meta, source, held, recorded)
    return _graded(made, item)


def _real(
    meta: TensorMeta,
    source: Stored | Recorded,
    held: Callable[[str], torch.Tensor],
    recorded: RecordedValues | None,
) -> torch.Tensor:
    """Values that the script had."""
    if isinstance(source, Stored):
        return _stored(meta, source, held(source.key).to(meta.device))
    if recorded is None:
        raise KeyError(source.node)
    values = recorded.get(source.node)
    as_told = (tuple(values.shape), values.dtype) == (meta.shape, getattr(torch, meta.dtype))
    return values if as_told else _adapted(values, meta)  # as where sizes have changed since


def _adapted(values: torch.Tensor, meta: TensorMeta) -> torch.Tensor:
    """The first of the values in each dimension, in the dtype and stride of `meta`. Raises NotRecorded where there are
    too few."""
    while values.dim() > len(meta.shape):
        values = values[0]
    if values.dim() < len(meta.shape) or any(a < b for a, b in zip(values.shape, meta.shape, strict=True)):
        raise NotRecorded(f"values of {tuple(values.shape)} for {meta.shape}")
    corner = values[tuple(slice(size) for size in meta.shape)].to(getattr(torch, meta.dtype))
    made = torch.empty_strided(meta.shape, meta.stride, dtype=corner.dtype, device=meta.device)
    return made.copy_(corner)


def _stored(meta: TensorMeta, source: Stored, held: torch.Tensor) -> torch.Tensor:
    if source.shared:
        return restrided(held, meta, meta.offset)
    if tuple(held.shape) == meta.shape and held.dtype == getattr(torch, meta.dtype):
        return held
    return restrided(held.flatten(), meta)


def _graded(made: torch.Tensor, item: TensorInput) -> Any:
    if item.parameter:
        return torch.nn.Parameter(made, requires_grad=item.meta.requires_grad)
    if item.meta.requires_grad:
        if item.leaf:
            return made.requires_grad_(True)
        # An op's result requires grad without being a leaf, which allows in-place ops on it. A clone fills gaps and
        # overlaps: one is made of the stretch that such a tensor is seen through.
        if item.meta.span == item.meta.elements:
            return made.requires_grad_(True).clone()
        return flat(made).requires_grad_(True).clone().as_strided(made.shape, made.stride())
    return made
