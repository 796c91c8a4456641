"""Fake tensors, symbolic numbers, and the context of Dynamo's backend calls."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import torch
from torch._dynamo.source import AttrSource, LocalSource
from torch._guards import (
    CompileContext,
    CompileId,
    GlobalContext,
    Source,
    TracingContext,
    compile_context,
    tracing,
)
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx._lazy_graph_module import _make_graph_module, _use_lazy_graph_module
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatefulSymbolicContext

from minifier.interfaces.declared import EVERYTHING, TORCH, stands_on

stands_on("torch:Tensor._base", loses=EVERYTHING)
stands_on("torch:UntypedStorage._cdata", loses=EVERYTHING)
stands_on("torch.fx.experimental.symbolic_shapes:ShapeEnv.settings", loses=EVERYTHING)
_AS_DYNAMO_CALLS = "a setting of Dynamo while a probe calls a backend"
_SCALARS = stands_on("torch._dynamo.config:capture_scalar_outputs", loses=_AS_DYNAMO_CALLS)
_SHAPES = stands_on("torch._dynamo.config:capture_dynamic_output_shape_ops", loses=_AS_DYNAMO_CALLS)
_DATA_POINTERS = stands_on("torch._functorch.config:fake_tensor_allow_unsafe_data_ptr_access", loses=_AS_DYNAMO_CALLS)
_LAZY_CODE = stands_on("torch._dynamo.config:use_lazy_graph_module", loses=_AS_DYNAMO_CALLS)

_ASKS_FOR_DEVICES = stands_on(
    "torch._subclasses.fake_tensor:FakeTensorMode.avoid_device_init",
    loses="probes that use CUDA, of a graph on the CPU: CUDA's driver starts before they are forked",
)

COMPILE_ID = CompileId(frame_id=0, frame_compile_id=0)
# Dynamo compiles in a session since torch 2.13.
_SESSION = [stands_on("torch.compiler:_compile_session_context", loses=_AS_DYNAMO_CALLS)] if TORCH >= (2, 13) else []


@contextlib.contextmanager
def as_dynamo_calls(
    fake_mode: FakeTensorMode, inputs: Sequence[object] = (), known: Mapping[int, Any] = MappingProxyType({})
) -> Iterator[None]:
    """Enter the tracing context in which Dynamo calls a backend with these inputs of constant sizes.

    `fake_mode` is the mode of the example values. Dynamo calls the backend under another mode with the same shape
    environment. Without an entry for a tensor, AOTAutograd would treat all of its sizes as symbolic. `known` maps the
    ids of tensors to existing results of `static_context`.
    """
    assert fake_mode.shape_env is not None, "a fake mode of `new_fake_mode`"
    context = TracingContext(mode_of_call(fake_mode.shape_env))
    for number, tensor in enumerate(inputs):
        if isinstance(tensor, torch.Tensor):
            tensor_context = known.get(id(tensor)) or static_context(tensor, local_source(f"x{number}"))
            context.tensor_to_context[tensor] = tensor_context
    with tracing(context), as_dynamo_compiles(context.global_context):
        yield


@contextlib.contextmanager
def as_dynamo_compiles(context: GlobalContext) -> Iterator[None]:
    """Enter the state in which Dynamo calls a backend: its compile id, its flag, its note of the global state."""
    autocast, dtype = torch.is_autocast_enabled, torch.get_autocast_dtype
    accelerator = torch.accelerator.current_accelerator()
    device = accelerator.type if accelerator is not None else "cuda"
    context.global_state.update(
        grad_enabled=(torch.set_grad_enabled, torch.is_grad_enabled()),
        autocast_enabled=(functools.partial(torch.set_autocast_enabled, device), autocast(device)),
        autocast_cpu_enabled=(functools.partial(torch.set_autocast_enabled, "cpu"), autocast("cpu")),
        autocast_gpu_dtype=(functools.partial(torch.set_autocast_dtype, device), dtype(device)),
        autocast_cpu_dtype=(functools.partial(torch.set_autocast_dtype, "cpu"), dtype("cpu")),
        autocast_cache_enabled=(torch.set_autocast_cache_enabled, torch.is_autocast_cache_enabled()),
    )
    with contextlib.ExitStack() as stack:
        stack.enter_context(compile_context(CompileContext(COMPILE_ID)))
        for session in filter(None, (each.find() for each in _SESSION)):
            stack.enter_context(session())
        yield


def mode_of_call(environment: ShapeEnv) -> FakeTensorMode:
    """Return a fake mode like Dynamo's at a backend call, by Dynamo's present configuration."""
    environment.settings = replace(
        environment.settings,
        allow_scalar_outputs=bool(_SCALARS.find()),
        allow_dynamic_output_shape_ops=bool(_SHAPES.find()),
    )
    return _safe_mode(environment)


def _safe_mode(environment: ShapeEnv) -> FakeTensorMode:
    """Return a fake mode whose tensors raise where their memory is read, as Dynamo's do."""
    with _DATA_POINTERS.patched(False):
        return FakeTensorMode(shape_env=environment, export=False)


def local_source(name: str) -> Source:
    """Return Dynamo's source of an input of this name."""
    return LocalSource(name, is_input=True)


def static_context(tensor: torch.Tensor, source: Source) -> Any:
    """Return the context that declares all sizes of a tensor constant, and those of a view's base."""
    base = tensor._base
    return StatefulSymbolicContext(
        dynamic_sizes=[DimDynamic.STATIC] * tensor.dim(),
        view_base_context=None if base is None else static_context(base, AttrSource(source, "_base")),
        tensor_source=source,
    )


def new_fake_mode() -> FakeTensorMode:
    """Return a fake mode like Dynamo's, with its own shape environment. The mode rejects real inputs."""
    # Without a list of tracked fakes, torch.export refuses to work inside a backend.
    return _safe_mode(ShapeEnv(tracked_fakes=[]))


@contextlib.contextmanager
def asking_for_no_device() -> Iterator[None]:
    """Let the ops of fake tensors on the CPU ask for no device: the question alone keeps forks from using CUDA."""
    asks = _ASKS_FOR_DEVICES.find()
    _ASKS_FOR_DEVICES.assign(False)
    try:
        yield
    finally:
        _ASKS_FOR_DEVICES.assign(asks)


def fake_tensor(
    mode: FakeTensorMode, shape: Sequence[int], stride: Sequence[int], dtype: torch.dtype, device: str, offset: int = 0
) -> torch.Tensor:
    """Return a fake tensor. Made directly: the mode's own dispatch takes ten times as long."""
    empty = torch.empty_strided(tuple(shape), tuple(stride), dtype=dtype, device="meta")
    if offset:
        elements = offset + empty.untyped_storage().nbytes() // empty.element_size()
        empty = torch.empty(elements, dtype=dtype, device="meta").as_strided(tuple(shape), tuple(stride), offset)
    return FakeTensor(mode, empty, torch.device(device))


def graph_module(root: torch.nn.Module, graph: torch.fx.Graph) -> torch.fx.GraphModule:
    """Return a GraphModule like Dynamo's, whose code is generated on demand."""
    with _use_lazy_graph_module(bool(_LAZY_CODE.find())):
        return _make_graph_module(root, graph)


def as_hint(value: Any) -> Any:
    """Return the hint of a symbolic number, or None without a hint. Other values are returned unchanged."""
    if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        node = value.node
        return node.hint if node.has_hint() else None
    return value


def expression_of(value: Any) -> str | None:
    """Return the expression of a symbolic number; None for a constant expression, and for other values."""
    if not isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return None
    expression = value.node.expr
    return str(expression) if expression.free_symbols else None


def storage_key(tensor: torch.Tensor) -> object | None:
    """Return the identity of the tensor's storage, fake or real, or None without a storage."""
    try:
        return int(tensor.untyped_storage()._cdata)
    except (NotImplementedError, RuntimeError):
        return None


def is_fake(values: Any) -> bool:
    """Whether any of the values is a fake tensor."""
    return any(isinstance(value, FakeTensor) for value in values)
