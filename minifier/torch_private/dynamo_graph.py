"""Dynamo's additions to a graph for its backend: arguments and sources of placeholders, attributes of the module."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import torch
from torch._dynamo.output_graph import GraphCompileReason
from torch._dynamo.source import AttrSource, LocalSource
from torch._dynamo.utils import _extract_tensor_dict
from torch._dynamo.variables.builder import GraphArg
from torch._subclasses.fake_tensor import FakeTensor

from minifier.interfaces import names
from minifier.interfaces.declared import TORCH
from minifier.torch_private.fakes import COMPILE_ID, as_hint, fake_tensor

_BACKEND_ID = {names.BACKEND_ID: "__compiled_fn_0"} if TORCH >= (2, 9) else {}
_LOCAL = re.compile(r"l_(\w+?)_")  # Dynamo's placeholder for the local variable


def complete_module(module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """Add the attributes and metadata of Dynamo's modules, and return the module.

    AOTAutograd recognises Dynamo's modules by them.
    """
    module.meta.update({names.FLAT_NAMES: {}, names.COMPILE_ID: COMPILE_ID, **_BACKEND_ID})
    held = [name for name, _ in (*module.named_parameters(), *module.named_buffers())]
    facts = {
        names.REASON: GraphCompileReason("return_value", [], graph_break=False),
        names.PARAMETER_SOURCES: {name: AttrSource(LocalSource("self"), name) for name in held},
        names.USER_STACKS: {},
    }
    for name, value in facts.items():
        object.__setattr__(module, name, value)
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
        setattr(node, names.SOURCE_OF_NODE, source)
        node.type = type(value)
        example = node.meta.get("example_value")
        if not isinstance(value, torch.Tensor):
            node.meta["grapharg"] = GraphArg(source, value, False, None, is_tensor=False, example_strong_ref=value)
        elif isinstance(example, FakeTensor):
            if value.storage_offset() != as_hint(example.storage_offset()):
                example = node.meta["example_value"] = _fake_at(example, int(value.storage_offset()))
            node.meta["grapharg"] = GraphArg(source, value, False, example)
            node.meta["tensor_dict"] = _extract_tensor_dict(value)


def _fake_at(example: FakeTensor, offset: int) -> Any:
    """Return the fake input at another offset of its storage."""
    shape, stride = example.shape, example.stride()
    moved = fake_tensor(example.fake_mode, shape, stride, example.dtype, str(example.device), offset)
    return moved.requires_grad_(example.requires_grad)
