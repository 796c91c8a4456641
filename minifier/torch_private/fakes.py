"""What Dynamo has around a backend call: fake tensors, a tracing context, lazy graph modules."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch
import torch._dynamo
from torch._dynamo.source import AttrSource, LocalSource
from torch._guards import Source, TracingContext, tracing
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx._lazy_graph_module import _make_graph_module, _use_lazy_graph_module
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatefulSymbolicContext


@contextlib.contextmanager
def as_dynamo_calls(
    fake_mode: FakeTensorMode, inputs: Sequence[object] = (), known: Mapping[int, Any] = MappingProxyType({})
) -> Iterator[None]:
    """The tracing context in which Dynamo calls a backend with these inputs, their sizes being plain numbers.

    Where the context says nothing about a tensor, AOTAutograd takes all of its sizes for symbolic. `known` has, by the
    id of a tensor, a `static_context` that was made already.
    """
    context = TracingContext(fake_mode)
    for number, tensor in enumerate(inputs):
        if isinstance(tensor, torch.Tensor):
            of_tensor = known.get(id(tensor)) or static_context(tensor, local_source(f"x{number}"))
            context.tensor_to_context[tensor] = of_tensor
    with tracing(context):
        yield


def local_source(name: str) -> Source:
    """Where Dynamo would have an input of this name from."""
    return LocalSource(name, is_input=True)


def static_context(tensor: torch.Tensor, source: Source) -> Any:
    """What says of a tensor, and of the one that it is a view of, that their sizes are plain numbers."""
    base = tensor._base
    return StatefulSymbolicContext(
        dynamic_sizes=[DimDynamic.STATIC] * tensor.dim(),
        view_base_context=None if base is None else static_context(base, AttrSource(source, "_base")),
        tensor_source=source,
    )


def new_fake_mode() -> FakeTensorMode:
    """A fake mode as Dynamo makes one: its own shape environment, non-fake inputs refused."""
    # Without a list of tracked fakes, as Dynamo has, torch.export refuses to work inside a backend.
    return FakeTensorMode(shape_env=ShapeEnv(tracked_fakes=[]), export=False)


def fake_tensor(
    mode: FakeTensorMode, shape: Sequence[int], stride: Sequence[int], dtype: torch.dtype, device: str
) -> torch.Tensor:
    """A fake tensor made directly: the mode's own dispatch costs ten times as much."""
    empty = torch.empty_strided(tuple(shape), tuple(stride), dtype=dtype, device="meta")
    return FakeTensor(mode, empty, torch.device(device))


def graph_module(root: torch.nn.Module, graph: torch.fx.Graph) -> torch.fx.GraphModule:
    """A GraphModule as Dynamo makes it: its code is generated when somebody asks for it."""
    with _use_lazy_graph_module(torch._dynamo.config.use_lazy_graph_module):
        return _make_graph_module(root, graph)
