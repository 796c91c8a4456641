"""A Graph as a torch.fx.GraphModule, as fresh as Dynamo's."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import torch

from minifier.case.graph import Graph, Module, Node
from minifier.case.literals import imported_paths
from minifier.case.targets import LAUNCH
from minifier.case.values import Scalar, Sequence_, TensorMeta, Value
from minifier.fx.names import resolve
from minifier.fx.node_arguments import write
from minifier.fx.tensors import StoredTensors
from minifier.fx.triton_launches import launch_in_graph
from minifier.torch_private import graph_module

_OWN: Mapping[str, str] = MappingProxyType({})
Fake = Callable[[TensorMeta], torch.Tensor]


def build_module(spec: Module, tensors: StoredTensors) -> torch.nn.Module:
    """A module as it was: its class, attributes and tensors, without running its constructor."""
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
    """What Dynamo would have as a node's `example_value`; None where it has none."""
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
    names: Mapping[str, str] = _OWN,
) -> torch.fx.GraphModule:
    """A new GraphModule. `example` gives the value that each node has in its `meta` under `key`: Dynamo's graphs
    have an `example_value`, AOTAutograd's a `val`. `names` has those of inputs that are not called as in the Graph."""
    root = torch.nn.Module()
    for target, stored in graph.attributes.items():
        _set(root, target, tensors.get(stored))
    for target, spec in graph.modules.items():
        _set(root, target, build_module(spec, tensors))
    built = torch.fx.Graph()
    env: dict[str, torch.fx.Node] = {}
    for node in graph.nodes:
        args, kwargs = write(node.args, env.__getitem__), write(node.kwargs, env.__getitem__)
        if node.target == LAUNCH:
            kwargs = launch_in_graph(kwargs)
        called: Any = resolve(node.target) if node.op == "call_function" else node.target
        name = names.get(node.name, node.name)
        called = f"L{name[1:]}" if name != node.name else called
        made = built.create_node(node.op, called, name=name)
        if args:  # set afterwards, as create_node() looks at each leaf of what it is given
            made.args = args
        if kwargs:
            made.kwargs = kwargs
        env[node.name] = made
        if example is not None and node.op != "output":
            value = example(node)
            if value is not None:
                made.meta[key] = value
            if node.source:  # as Dynamo has it, but for the file, which is nobody's business
                made.meta["stack_trace"] = f'  File "<script>", line 1, in forward\n    {node.source}\n'
    return graph_module(root, built)


def _set(root: torch.nn.Module, target: str, value: torch.Tensor | torch.nn.Module) -> None:
    *path, last = target.split(".")
    for part in path:
        if not hasattr(root, part):
            root.add_module(part, torch.nn.Module())
        root = getattr(root, part)
    if isinstance(value, torch.nn.Module):
        root.add_module(last, value)
    else:
        root.register_buffer(last, value)


def import_targets(graph: Graph) -> None:
    """Imports what the graph calls, so that forked children need not; raises as import does."""
    importlib.invalidate_caches()
    for node in graph.nodes:
        if node.op == "call_function":
            for path in [node.target, *imported_paths((node.args, node.kwargs))]:
                resolve(path)
