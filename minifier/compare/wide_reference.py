"""The same graph and inputs in a wider floating point type, and inputs moved by a rounding error."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from minifier.case.graph import Graph, Module, Node
from minifier.case.values import Constant
from minifier.fx.tensors import flat
from minifier.torch_private import move, storage_key


@dataclass(frozen=True)
class Width:
    """Which dtypes become which, by name; which conversion methods become which; the default dtype with it."""

    dtypes: dict[str, str]
    methods: dict[str, str]
    default: torch.dtype | None

    def of(self, dtype: torch.dtype) -> torch.dtype:
        """The dtype that takes this one's place."""
        name = str(dtype).removeprefix("torch.")
        return getattr(torch, self.dtypes.get(name, name))  # type: ignore[no-any-return]


# Types of 8 bits and fewer stay: rounding to them is what the graph means, not how it is computed.
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
_AS_BITS = ("view", "view_dtype", "torch.Tensor.view", "torch.ops.aten.view.dtype")


def _mapped(value: Any, width: Width) -> Any:
    if isinstance(value, Constant) and value.kind == "dtype":
        return Constant("dtype", width.dtypes.get(value.name, value.name))
    if isinstance(value, (tuple, list)):
        return type(value)(_mapped(item, width) for item in value)
    if isinstance(value, dict):
        return {key: _mapped(item, width) for key, item in value.items()}
    return value


def _widened_node(node: Node, width: Width) -> Node:
    # An autocast region leaves float64 alone by itself; a view of bits means the type that it names.
    if node.target.endswith("_enter_autocast") or node.target in _AS_BITS:
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
    """The graph with every narrower floating point type that it names replaced."""
    return Graph(
        tuple(_widened_node(node, width) for node in graph.nodes),
        graph.attributes,
        {key: _widened_module(module, width) for key, module in graph.modules.items()},
    )


def widen_module(module: torch.nn.Module, width: Width) -> None:
    """Converts the module's parameters and buffers; the tensors that they were made from stay as they are."""
    for part in module.modules():
        for name, parameter in list(part.named_parameters(recurse=False)):
            made = parameter.detach().to(width.of(parameter.dtype))
            setattr(part, name, torch.nn.Parameter(made, requires_grad=parameter.requires_grad))
        for name, buffer in list(part.named_buffers(recurse=False)):
            setattr(part, name, buffer.to(width.of(buffer.dtype)))


def is_number(tensor: torch.Tensor) -> bool:
    """Whether its elements are real or complex floating point numbers."""
    return tensor.is_floating_point() or tensor.is_complex()


def _regraded(made: torch.Tensor, original: torch.Tensor) -> torch.Tensor:
    if not original.requires_grad:
        return made
    made = made.detach().requires_grad_(True)
    return made if original.is_leaf else made.clone()


def widen_inputs(values: Sequence[Any], width: Width, but: Collection[int] = ()) -> list[Any]:
    """The inputs converted, with their strides, `but` those at some positions; those that share a storage share one.
    The list that is given is emptied as the new one grows, if it is a list."""
    stretches: dict[object, tuple[torch.Tensor, int]] = {}
    shared: dict[object, list[torch.Tensor]] = {}
    for i, value in enumerate(values):
        if i not in but and isinstance(value, torch.Tensor) and is_number(value):
            shared.setdefault((storage_key(value), value.dtype), []).append(value.detach())
    for key, members in shared.items():
        start = min(int(m.storage_offset()) for m in members)
        whole = max(int(m.storage_offset()) + flat(m).numel() for m in members) - start
        stretch = members[0].as_strided((whole,), (1,), start)
        stretches[key] = (stretch.to(width.of(stretch.dtype)), start)
    del shared
    found: list[Any] = []
    for i, value in enumerate(values):
        if i not in but and isinstance(value, torch.Tensor) and is_number(value):
            stretch, start = stretches[storage_key(value), value.dtype]
            made = stretch.as_strided(value.shape, value.stride(), value.storage_offset() - start)
            found.append(_regraded(made, value))
        else:
            found.append(value)
        if isinstance(values, list):
            values[i] = None
    return found


@contextlib.contextmanager
def default_dtype(dtype: torch.dtype | None) -> Iterator[None]:
    """Inside, new tensors are of this type unless told otherwise; None changes nothing."""
    before = torch.get_default_dtype()
    try:
        if dtype is not None:
            torch.set_default_dtype(dtype)
        yield
    finally:
        torch.set_default_dtype(before)


def narrow_dtypes(graph: Graph, values: Sequence[Any], width: Width) -> bool:
    """Whether the inputs or the graph hold anything that the width changes."""
    held = any(isinstance(v, torch.Tensor) and width.of(v.dtype) is not v.dtype for v in values)
    return held or widened(graph, width) != graph


def move_inputs(values: Sequence[Any], steps: float, seed: int) -> None:
    """Moves each floating point input, in place, by `steps` times its type's eps, up or down at random."""
    with torch.no_grad():
        for i, value in enumerate(values):
            if isinstance(value, torch.Tensor) and is_number(value) and value.numel():
                move(flat(value.detach()), steps, 1000 * seed + i)
