"""Widen a graph and its inputs to a larger floating point dtype, and move inputs by a rounding error."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from minifier.case.graph import Graph, Module, Node
from minifier.case.values import Constant
from minifier.compare.results import is_float
from minifier.fx.tensors import flat
from minifier.interfaces.names import ENTER_AUTOCAST
from minifier.torch_private import move, storage_key


@dataclass(frozen=True)
class Width:
    """Mappings from dtypes and conversion methods to wider ones, by name, and a default dtype."""

    dtypes: dict[str, str]
    methods: dict[str, str]
    default: torch.dtype | None

    def of(self, dtype: torch.dtype) -> torch.dtype:
        """Return the dtype that replaces `dtype`."""
        name = str(dtype).removeprefix("torch.")
        return getattr(torch, self.dtypes.get(name, name))  # type: ignore[no-any-return]


# Dtypes of at most 8 bits stay: the graph means to round to them.
DOUBLE = Width(
    {
        **dict.fromkeys(("float32", "float16", "bfloat16"), "float64"),
        **dict.fromkeys(("complex64", "complex32"), "complex128"),
    },
    {**dict.fromkeys(("float", "half", "bfloat16"), "double"), **dict.fromkeys(("cfloat", "chalf"), "cdouble")},
    torch.float64,
)
SINGLE = Width(
    {"float16": "float32", "bfloat16": "float32", "complex32": "complex64"},
    {"half": "float", "bfloat16": "float", "chalf": "cfloat"},
    None,
)
_MAX_WHOLE_BYTES = 2**24  # of a storage that is widened whole, not only the elements of its inputs
_BIT_VIEWS = ("view", "view_dtype", "torch.Tensor.view", "torch.ops.aten.view.dtype")


def _mapped(value: Any, width: Width) -> Any:
    if isinstance(value, Constant) and value.kind == "dtype":
        return Constant("dtype", width.dtypes.get(value.name, value.name))
    if isinstance(value, (tuple, list)):
        return type(value)(_mapped(item, width) for item in value)
    if isinstance(value, dict):
        return {key: _mapped(item, width) for key, item in value.items()}
    return value


def _widened_node(node: Node, width: Width) -> Node:
    # Autocast leaves float64 alone anyway. A view of bits needs the dtype that it names.
    if node.target == ENTER_AUTOCAST or node.target in _BIT_VIEWS:
        return node
    prefix, _, last = node.target.rpartition(".")
    target = node.target
    if last in width.methods and (node.op == "call_method" or prefix == "torch.Tensor"):
        target = ".".join(filter(None, (prefix, width.methods[last])))
    return replace(node, target=target, args=_mapped(node.args, width), kwargs=_mapped(node.kwargs, width))


def _widened_module(module: Module, width: Width) -> Module:
    return replace(
        module,
        plain={key: _mapped(value, width) for key, value in module.plain.items()},
        children={key: _widened_module(child, width) for key, child in module.children.items()},
        graph=None if module.graph is None else widened(module.graph, width),
    )


def widened(graph: Graph, width: Width) -> Graph:
    """Return the graph with its dtypes and conversion methods mapped by `width`."""
    return Graph(
        tuple(_widened_node(node, width) for node in graph.nodes),
        graph.attributes,
        {key: _widened_module(module, width) for key, module in graph.modules.items()},
    )


def widen_module(module: torch.nn.Module, width: Width) -> None:
    """Replace the module's parameters and buffers by wide ones; the original tensors do not change."""
    for submodule in module.modules():
        for name, parameter in list(submodule.named_parameters(recurse=False)):
            wide = parameter.detach().to(width.of(parameter.dtype))
            setattr(submodule, name, torch.nn.Parameter(wide, requires_grad=parameter.requires_grad))
        for name, buffer in list(submodule.named_buffers(recurse=False)):
            setattr(submodule, name, buffer.to(width.of(buffer.dtype)))


def _with_grad_of(original: torch.Tensor, wide: torch.Tensor) -> torch.Tensor:
    if not original.requires_grad:
        return wide
    wide = wide.detach().requires_grad_(True)
    return wide if original.is_leaf else wide.clone()


def widen_inputs(values: Sequence[Any], width: Width, but: Collection[int] = ()) -> list[Any]:
    """Return wide inputs, except at the positions `but`. Strides and shared storages are kept.

    If `values` is a list, its items are replaced by None on the way, to release memory.
    """
    stretches: dict[object, tuple[torch.Tensor, int]] = {}  # of a storage: the wide part in use, and its start
    shared: dict[object, list[torch.Tensor]] = {}
    for i, value in enumerate(values):
        if i not in but and is_float(value):
            shared.setdefault((storage_key(value), value.dtype), []).append(value.detach())
    for key, members in shared.items():
        start = min(int(m.storage_offset()) for m in members)
        whole = max(int(m.storage_offset()) + flat(m).numel() for m in members) - start
        size = members[0].untyped_storage().nbytes()
        if size <= _MAX_WHOLE_BYTES:  # an op may read beyond its input
            start, whole = 0, size // members[0].element_size()
        stretch = members[0].as_strided((whole,), (1,), start)
        stretches[key] = (stretch.to(width.of(stretch.dtype)), start)
    del shared
    inputs: list[Any] = []
    for i, value in enumerate(values):
        if i not in but and is_float(value):
            stretch, start = stretches[storage_key(value), value.dtype]
            wide = stretch.as_strided(value.shape, value.stride(), value.storage_offset() - start)
            inputs.append(_with_grad_of(value, wide))
        else:
            inputs.append(value)
        if isinstance(values, list):
            values[i] = None
    return inputs


@contextlib.contextmanager
def default_dtype(dtype: torch.dtype | None) -> Iterator[None]:
    """Set torch's default dtype inside the context; None changes nothing."""
    before = torch.get_default_dtype()
    try:
        if dtype is not None:
            torch.set_default_dtype(dtype)
        yield
    finally:
        torch.set_default_dtype(before)


def narrow_dtypes(graph: Graph, values: Sequence[Any], width: Width) -> bool:
    """Whether `width` changes any of the inputs or the graph."""
    changes_inputs = any(isinstance(v, torch.Tensor) and width.of(v.dtype) is not v.dtype for v in values)
    return changes_inputs or widened(graph, width) != graph


def move_inputs(values: Sequence[Any], steps: float, seed: int, but: Collection[int] = ()) -> None:
    """Move each floating point input in place by `steps` times its dtype's eps, up or down at random.

    Inputs at the positions `but` stay.
    """
    for i, value in enumerate(values):
        if i not in but and is_float(value) and value.numel():
            with torch.inference_mode(value.is_inference()), torch.no_grad():  # torch refuses to change it outside
                move(flat(value.detach()), steps, 1000 * seed + i)
