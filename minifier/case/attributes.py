"""The tensors that a graph holds itself, as inputs: a function has no attributes."""

from __future__ import annotations

from dataclasses import replace

from minifier.case.case import Case, Level
from minifier.case.graph import Graph, Node
from minifier.case.inputs import Input, Stored, TensorInput
from minifier.case.values import TensorMeta, contiguous_stride, is_permuted


def attributes_as_inputs(case: Case) -> Case:
    """Turn the attributes of the Case's graph into inputs.

    Those of a graph of Dynamo's become parameters: while inductor freezes (its option `freezing`), Dynamo makes
    attributes of all parameters that a function gets.
    """
    of_dynamo = case.level is Level.DYNAMO
    placeholders: list[Node] = []
    rest: list[Node] = []
    inputs: list[Input] = list(case.inputs)
    for node in case.graph.nodes:
        if node.op == "get_attr" and node.target in case.graph.attributes:
            assert isinstance(node.value, TensorMeta), "Dynamo and AOTAutograd note the layout of each tensor"
            stored = Stored(case.graph.attributes[node.target], contiguous=True)
            shape, stride = node.value.shape, node.value.stride
            stride = stride if is_permuted(shape, stride) else contiguous_stride(shape)
            trained = of_dynamo and node.value.requires_grad
            meta = replace(node.value, requires_grad=trained, stride=stride, offset=0, storage=None)
            inputs.append(TensorInput(node.name, meta, stored, parameter=of_dynamo))
            placeholders.append(replace(node, op="placeholder", target=node.name))
        else:
            (placeholders if node.op == "placeholder" else rest).append(node)
    return replace(case, graph=Graph((*placeholders, *rest), {}, case.graph.modules), inputs=tuple(inputs))
