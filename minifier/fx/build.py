"""A new torch.fx.GraphModule from a Graph, like Dynamo's."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import torch

from minifier.case.graph import LAUNCH, Graph, Module, Node
from minifier.case.literals import imported_paths
from minifier.case.values import Scalar, Sequence_, TensorMeta, Value
from minifier.fx.names import resolve
from minifier.fx.node_arguments import write
from minifier.fx.tensors import StoredTensors
from minifier.fx.triton_launches import launch_in_graph
from minifier.torch_private import graph_module

_NOT_RENAMED: Mapping[str, str] = MappingProxyType({})
Fake = Callable[[TensorMeta], torch.Tensor]


def build_module(spec: Module, tensors: StoredTensors) -> torch.nn.Module:
    """Return a module with its class, attributes and tensors, without calling its constructor."""
    if spec.graph is not None:
        return build_graph(spec.graph, tensors)
    kind = resolve(spec.type)
    module: torch.nn.Module = kind.__new__(kind)
    torch.nn.Module.__init__(module)
    for name, value in spec.plain.items():
        object.__setattr__(module, name, write(value))
    for name, key in spec.parameters.items():
        module.register_parameter(name, torch.nn.Parameter(tensors.get(key), requires_grad=False))
    for name, key in spec.buffers.items():
        module.register_buffer(name, tensors.get(key))
    for name, child in spec.children.items():
        module.add_module(name, build_module(child, tensors))
    return module.train(spec.training)


def example_of(value: Value, fake: Fake) -> Any:
    """Return the `example_value` that Dynamo would give the node, or None."""
    if isinstance(value, TensorMeta):
        return fake(value)
    if isinstance(value, Scalar):
        return value.value
    if isinstance(value, Sequence_):
        return tuple(example_of(item, fake) for item in value.items)
    return None


def build_graph(
    graph: Graph,
    tensors: StoredTensors,
    example: Callable[[Node], Any] | None = None,
    key: str = "example_value",
    names: Mapping[str, str] = _NOT_RENAMED,
) -> torch.fx.GraphModule:
    """Return a new GraphModule.

    example: returns a node's example value, to be stored in its `meta` under `key`.
    key: `example_value` for Dynamo's graphs, `val` for AOTAutograd's.
    names: new names of inputs.
    """
    root = torch.nn.Module()
    for target, tensor_key in graph.attributes.items():
        _set(root, target, tensors.get(tensor_key))
    for target, spec in graph.modules.items():
        _set(root, target, build_module(spec, tensors))
    built = torch.fx.Graph()
    env: dict[str, torch.fx.Node] = {}
    for node in graph.nodes:
        args, kwargs = write(node.args, env.__getitem__), write(node.kwargs, env.__getitem__)
        if node.target == LAUNCH:
            kwargs = launch_in_graph(kwargs)
        callee: Any = resolve(node.target) if node.op == "call_function" else node.target
        name = names.get(node.name, node.name)
        callee = f"L{name[1:]}" if name != node.name else callee
        fx_node = built.create_node(node.op, callee, name=name)
        if args:  # set here, because create_node() would visit each leaf
            fx_node.args = args
        if kwargs:
            fx_node.kwargs = kwargs
        env[node.name] = fx_node
        if example is not None and node.op != "output":
            value = example(node)
            if value is not None:
                fx_node.meta[key] = value
            if node.source:  # like Dynamo's, but without the private path of the file
                fx_node.meta["stack_trace"] = f'  File "<script>", line 1, in forward\n    {node.source}\n'
    return graph_module(root, built)


def _set(root: torch.nn.Module, target: str, value: torch.Tensor | torch.nn.Module) -> None:
    *path, last = target.split(".")
    for name in path:
        if not hasattr(root, name):
            root.add_module(name, torch.nn.Module())
        root = getattr(root, name)
    if isinstance(value, torch.nn.Module):
        root.add_module(last, value)
    else:
        root.register_buffer(last, value)


def import_targets(graph: Graph) -> None:
    """Import the functions that the graph calls, once for all forked children. Raises as import does."""
    importlib.invalidate_caches()
    for node in graph.nodes:
        if node.op == "call_function":
            for path in [node.target, *imported_paths((node.args, node.kwargs))]:
                resolve(path)
