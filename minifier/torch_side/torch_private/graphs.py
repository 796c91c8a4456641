"""What Dynamo gives a graph for its backend: fake tensors, symbols, sources of placeholders; wrong fake kernels."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import torch
from torch._dynamo.output_graph import GraphCompileReason
from torch._dynamo.source import AttrSource, LocalSource
from torch._dynamo.utils import _extract_tensor_dict
from torch._dynamo.variables.builder import GraphArg
from torch._guards import CompileContext, CompileId, Source, TracingContext, compile_context, tracing
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx._lazy_graph_module import _make_graph_module, _use_lazy_graph_module
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatefulSymbolicContext

from minifier.data import torch_names
from minifier.data.torch_names import DYNAMIC_MARKS
from minifier.torch_side.interfaces import TORCH
from minifier.torch_side.torch_private import declared

COMPILE_ID = CompileId(frame_id=0, frame_compile_id=0)


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
    environment = fake_mode.shape_env
    environment.settings = replace(
        environment.settings,
        allow_scalar_outputs=bool(declared.SCALAR_OUTPUTS.find()),
        allow_dynamic_output_shape_ops=bool(declared.DYNAMIC_OUTPUTS.find()),
    )
    context = TracingContext(_safe_mode(environment))
    for number, tensor in enumerate(inputs):
        if isinstance(tensor, torch.Tensor):
            tensor_context = known.get(id(tensor)) or static_context(tensor, local_source(f"x{number}"))
            context.tensor_to_context[tensor] = tensor_context
    # A method that needs no object, given where to save.
    declared.SAVE_STATE.read(lambda: declared.SAVE_STATE.find()(None, context.global_context.global_state))
    session = declared.SESSION.find() if declared.SESSION is not None else None
    compiling = compile_context(CompileContext(COMPILE_ID))
    with tracing(context), compiling, (session or contextlib.nullcontext)():
        yield


def _safe_mode(environment: ShapeEnv) -> FakeTensorMode:
    """Return a fake mode whose tensors raise where their memory is read, as Dynamo's do."""
    with declared.DATA_POINTERS.patched(False):
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
    asks = declared.ASKS_FOR_DEVICES.find()
    declared.ASKS_FOR_DEVICES.assign(False)
    try:
        yield
    finally:
        declared.ASKS_FOR_DEVICES.assign(asks)


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
    with _use_lazy_graph_module(bool(declared.LAZY_MODULES.find())):
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


def marked_dims(tensor: torch.Tensor) -> frozenset[int]:
    """Return the dimensions marked by torch._dynamo.mark_dynamic, maybe_mark_dynamic or mark_unbacked."""
    return frozenset(dim for name in DYNAMIC_MARKS for dim in getattr(tensor, name, ()))


def mark_static(tensor: torch.Tensor, dims: Sequence[int]) -> None:
    """Let Dynamo keep these dimensions fixed, also with `dynamic=True`."""
    if (mark := declared.MARK_STATIC.find()) is not None:
        mark(tensor, list(dims))


def assumes_dynamic() -> bool:
    """Whether Dynamo currently treats every size as symbolic, like with `dynamic=True`."""
    return declared.STATIC.find() is False


_BACKEND_ID = {torch_names.BACKEND_ID: "__compiled_fn_0"} if TORCH >= (2, 9) else {}
_LOCAL = re.compile(r"l_(\w+?)_")  # Dynamo's placeholder for the local variable


def complete_module(module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """Add the attributes and metadata of Dynamo's modules, and return the module.

    AOTAutograd recognises Dynamo's modules by them.
    """
    module.meta.update({torch_names.FLAT_NAMES: {}, torch_names.COMPILE_ID: COMPILE_ID, **_BACKEND_ID})
    held = [name for name, _ in (*module.named_parameters(), *module.named_buffers())]
    sources = {name: AttrSource(LocalSource("self"), name) for name in held}
    object.__setattr__(module, torch_names.REASON, GraphCompileReason("return_value", [], graph_break=False))
    object.__setattr__(module, torch_names.PARAMETER_SOURCES, sources)
    object.__setattr__(module, torch_names.USER_STACKS, {})
    return module


def add_arguments(module: torch.fx.GraphModule, values: Sequence[Any]) -> None:
    """Give each placeholder the argument, source and type that Dynamo notes for an input of this value.

    Backends read the shapes of inputs there. The example values must be in place.
    """
    placeholders: Any = module.graph.find_nodes(op="placeholder")
    used: set[str] = set()
    for node, value in zip(placeholders, values, strict=True):
        match = _LOCAL.fullmatch(node.name)
        name = match.group(1) if match and match.group(1) not in used else node.name
        used.add(name)
        source = LocalSource(name, is_input=True)
        setattr(node, torch_names.SOURCE_OF_NODE, source)
        node.type = type(value)
        example = node.meta.get("example_value")
        if not isinstance(value, torch.Tensor):
            node.meta["grapharg"] = GraphArg(source, value, False, None, is_tensor=False, example_strong_ref=value)
        elif isinstance(example, FakeTensor):
            if value.storage_offset() != as_hint(example.storage_offset()):
                facts = example.fake_mode, example.shape, example.stride(), example.dtype, str(example.device)
                moved = fake_tensor(*facts, int(value.storage_offset()))
                example = node.meta["example_value"] = moved.requires_grad_(example.requires_grad)
            node.meta["grapharg"] = GraphArg(source, value, False, example)
            node.meta["tensor_dict"] = _extract_tensor_dict(value)


_NAMESPACES_OF_TORCH = frozenset(("aten", "prim", "prims"))
_MISMATCH = re.compile(r"output of (\S+) on FakeTensor and concrete Tensors, found (?:mismatched tensor metadata)?(.*)")


def wrong_fake_kernel(call: Callable[[], object]) -> tuple[str, str]:
    """Return the first operator of the call whose fake kernel gives other metadata than its result has, and how.

    Both are "" if none is seen. torch's own operators are not looked at.
    """
    mode = declared.CROSS_REFERENCE.find()
    if mode is None:
        return "", ""
    try:
        with mode(lambda op: getattr(op, "namespace", "") in _NAMESPACES_OF_TORCH):
            call()
    except Exception as error:  # noqa: BLE001 - of the user's operators, or what is looked for
        if found := _MISMATCH.search(str(error)):
            return found[1].removesuffix(".default"), found[2].lstrip(": ")
    return "", ""
