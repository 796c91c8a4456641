"""Graphs of Dynamo's with what a backend made of them, compared with eager where the script would run them."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch._dynamo.backends.registry import lookup_backend

from minifier.data.case.graph import Graph
from minifier.data.failure import Tolerance
from minifier.torch_side.compare import BackwardPass, Comparison, compare
from minifier.torch_side.fx.graphs import build_graph, read_graph
from minifier.torch_side.fx.tensors import StoredTensors, TensorFile


def copies(values: Sequence[Any]) -> list[Any]:
    """Copies with the strides, the sharing of storage, and the requires_grad of the originals."""
    storages: dict[int, torch.UntypedStorage] = {}
    made = []
    for value in values:
        if not isinstance(value, torch.Tensor):
            made.append(value)
            continue
        address = value.untyped_storage()._cdata
        if address not in storages:
            storages[address] = value.detach().untyped_storage().clone()
        with torch.no_grad():
            new = torch.empty(0, dtype=value.dtype, device=value.device)
            new.set_(storages[address], value.storage_offset(), value.shape, value.stride())
        new.requires_grad_(value.requires_grad)
        made.append(new if value.is_leaf or not value.requires_grad else new.clone())
    return made


@dataclass
class Capture:
    """One graph: our plain data, inputs, and how to build it."""

    graph: Graph
    values: list[Any]
    tensors: StoredTensors
    eager_runs: int = 0  # of the last comparison

    def inputs(self) -> list[Any]:
        return copies(self.values)

    def build(self, graph: Graph | None = None) -> torch.fx.GraphModule:
        return build_graph(graph or self.graph, self.tensors)

    def compare(
        self, compiled: Callable[..., Any], measure: Tolerance | None = None, *, backward: bool = False
    ) -> Comparison:
        self.eager_runs = 0

        def build(graph: Graph) -> torch.fx.GraphModule:
            self.eager_runs += 1
            return self.build(graph)

        gradients = BackwardPass() if backward else None
        return compare(compiled, self.graph, self.inputs, build, measure, backward=gradients)


def capture_of(gm: torch.fx.GraphModule, values: Sequence[Any]) -> Capture:
    file = TensorFile()
    graph = read_graph(gm, file)
    with tempfile.TemporaryDirectory() as folder:
        tensors = StoredTensors(file.write(Path(folder) / "held.safetensors"))
        tensors.load_all()
    return Capture(graph, copies(values), tensors)


def captures(function: Callable[..., Any], *args: Any, dynamic: bool | None = None) -> list[Capture]:
    """The graphs that Dynamo makes of a call."""
    found: list[Capture] = []

    def backend(gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        found.append(capture_of(gm, inputs))
        return gm.forward

    torch._dynamo.reset()
    torch.compile(function, backend=backend, dynamic=dynamic)(*args)
    torch._dynamo.reset()
    return found


def comparisons(
    function: Callable[..., Any], *calls: Sequence[Any], backend: str, backward: bool = False
) -> list[Comparison]:
    """Compiles a function with a real backend, and compares each graph where it is called, once for each
    sequence of arguments."""
    found: list[Comparison] = []

    def comparing(gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        held = capture_of(gm, [])
        compiled = lookup_backend(backend)(gm, inputs)

        def run(*values: Any) -> Any:
            capture = Capture(held.graph, copies(values), held.tensors)
            wanted = backward and any(isinstance(v, torch.Tensor) and v.requires_grad for v in values)
            found.append(capture.compare(compiled, backward=wanted))
            return capture.build().forward(*copies(values))

        return run

    torch._dynamo.reset()
    compiled = torch.compile(function, backend=comparing, dynamic=False)
    for arguments in calls:
        compiled(*arguments)
    torch._dynamo.reset()
    return found
