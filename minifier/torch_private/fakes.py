"""What Dynamo has around a backend call: fake tensors, a tracing context, lazy graph modules."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

import torch
import torch._dynamo
from torch._guards import TracingContext, tracing
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx._lazy_graph_module import _make_graph_module, _use_lazy_graph_module
from torch.fx.experimental.symbolic_shapes import ShapeEnv


@contextlib.contextmanager
def as_dynamo_calls(fake_mode: FakeTensorMode) -> Iterator[None]:
    """The tracing context in which Dynamo calls a backend."""
    with tracing(TracingContext(fake_mode)):
        yield


def new_fake_mode() -> FakeTensorMode:
    """A fake mode as Dynamo makes one: its own shape environment, non-fake inputs refused."""
    return FakeTensorMode(shape_env=ShapeEnv(), export=False)


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
