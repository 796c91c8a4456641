"""The inputs of a graph as data: of a call's values, or of their shapes alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from minifier.case import Drawn, Graph, Input, Scalar, ScalarInput, Stored, TensorInput, TensorMeta
from minifier.case.inputs import Source
from minifier.case.script_floats import floats_read
from minifier.errors import CannotSave
from minifier.fx.node_arguments import tensor_meta
from minifier.fx.tensors import TensorFile, storage_elements
from minifier.torch_private import as_hint, expression_of

_NO_MEMORY = Drawn("no memory")


def inputs_by_shape(graph: Graph) -> tuple[Input, ...]:
    """Describe inputs whose values are not known: tensors are zeros."""
    return tuple(_input_by_shape(node.name, node.value) for node in graph.placeholders)


def _input_by_shape(name: str, value: Any) -> Input:
    if isinstance(value, TensorMeta):
        return TensorInput(name, value, Drawn("zeros"))
    return ScalarInput(name, value.value, value.symbol) if isinstance(value, Scalar) else ScalarInput(name, None)


def inputs_of_call(graph: Graph, values: Sequence[Any], tensors: TensorFile) -> tuple[Input, ...]:
    """Describe the values of a call, and add their tensors to the file. Raises CannotSave."""
    placeholders = graph.placeholders
    if len(placeholders) != len(values):
        raise CannotSave(f"the graph has {len(placeholders)} inputs, but was called with {len(values)}")
    pairs = [(node, value) for node, value in zip(placeholders, values, strict=True)]
    values_by_name = {n.name: v for n, v in pairs if isinstance(v, torch.Tensor) and not v._is_zerotensor()}
    # Only these ops reach beyond their input.
    reaches = any("as_strided" in node.target for node in graph.ops)
    windows = {n: size for n, v in values_by_name.items() if reaches and (size := storage_elements(v))}
    floats = {n: v.item() for n in floats_read(graph) if type(v := values_by_name.get(n)) is torch.Tensor}
    known = {n: Drawn("full", low=number) for n, number in floats.items() if math.isfinite(number)}
    stored: dict[str, Source] = {
        **known,
        **tensors.add_inputs({n: v for n, v in values_by_name.items() if n not in known}, windows),
    }
    storages: dict[object, int] = {}
    inputs: list[Input] = []
    for node, value in pairs:
        if isinstance(value, torch.Tensor):
            meta = tensor_meta(value, storages)
            parameter, inference = isinstance(value, torch.nn.Parameter), value.is_inference()
            source, storage = stored.get(node.name, _NO_MEMORY), windows.get(node.name, 0)
            storage = 0 if isinstance(source, Stored) and source.shared else storage
            inputs.append(TensorInput(node.name, meta, source, value.is_leaf, parameter, inference, storage))
        elif value is None or isinstance(value, (bool, int, float, str)):
            inputs.append(ScalarInput(node.name, value))
        elif isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            inputs.append(ScalarInput(node.name, as_hint(value), expression_of(value)))
        else:
            kind = type(value)
            raise CannotSave(f"the input {node.name}, a {kind.__module__}.{kind.__qualname__}")
    return tuple(inputs)
