"""A new torch.fx.GraphModule from a Graph, like Dynamo's."""

from __future__ import annotations

import functools
import importlib
import math
import operator
import sys
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import torch

from minifier.case.graph import Graph, Module, Node, Ref
from minifier.case.literals import imported_paths
from minifier.case.values import Opaque, Scalar, Sequence_, TensorMeta, Value
from minifier.fx.names import resolve
from minifier.fx.node_arguments import write
from minifier.fx.tensors import StoredTensors
from minifier.fx.triton_launches import launch_in_graph
from minifier.interfaces.names import LAUNCH
from minifier.torch_private import graph_module

_NOT_RENAMED: Mapping[str, str] = MappingProxyType({})
Fake = Callable[[TensorMeta], torch.Tensor]
Example = Callable[[Node], Any]


def build_module(spec: Module, tensors: StoredTensors, example: Example | None = None) -> torch.nn.Module:
    """Return a module with its class, attributes and tensors, without calling its constructor.

    example: as in `build_graph`, for the nodes of nested graphs.
    """
    if spec.graph is not None:
        return build_graph(spec.graph, tensors, example)
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
        module.add_module(name, build_module(child, tensors, example))
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


def _is_negative(base: Any) -> bool:
    return isinstance(base, (int, float)) and math.copysign(1, base) < 0


def _power(base: Any, exponent: Any) -> Any:
    """Compute (-2) ** x. The code that torch generates for a graph's operator.pow is -2 ** x: minus a power of 2."""
    return base**exponent


def build_graph(
    graph: Graph,
    tensors: StoredTensors,
    example: Example | None = None,
    key: str = "example_value",
    names: Mapping[str, str] = _NOT_RENAMED,
) -> torch.fx.GraphModule:
    """Return a new GraphModule.

    example: returns a node's example value, to be stored in its `meta` under `key`; None for a graph that runs eagerly.
    key: `example_value` for Dynamo's graphs, `val` for AOTAutograd's.
    names: new names of inputs.
    """
    root = torch.nn.Module()
    metas = {node.target: node.value for node in graph.nodes if node.op == "get_attr"}
    for target, tensor_key in graph.attributes.items():
        meta = metas.get(target)
        _set(root, target, tensors.get(tensor_key).to(meta.device if isinstance(meta, TensorMeta) else "cpu"))
    for target, spec in graph.modules.items():
        _set(root, target, build_module(spec, tensors, example))
    built = torch.fx.Graph()
    env: dict[str, torch.fx.Node] = {}
    for node in graph.nodes:
        args, kwargs = write(node.args, env.__getitem__), write(node.kwargs, env.__getitem__)
        if node.op == "output":
            args = _flat_output(graph, node.args, args, key)
        if node.target == LAUNCH:
            kwargs = launch_in_graph(kwargs)
        callee: Any = resolve(node.target) if node.op == "call_function" else node.target
        if example is None and callee is operator.pow and _is_negative(args[0]):
            callee = _power
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
            if node.modules:
                fx_node.meta["nn_module_stack"] = {key: (path, _class_of(kind)) for key, path, kind in node.modules}
            if node.is_op:
                fx_node.meta["source_fn_stack"] = [(node.origin or name, _function(node, fx_node))]
    return graph_module(root, built)


def _flat_output(graph: Graph, refs: Any, args: Any, key: str) -> Any:
    """Return the output node's arguments, with the items in the place of a returned sequence.

    Dynamo returns the items of a sequence, picked by ops: backends refuse sequences as outputs.
    """
    returned = refs[0] if refs else ()
    if not isinstance(returned, (tuple, list)):
        return args
    values = {ref: graph.node(ref.name).value for ref in returned if isinstance(ref, Ref)}
    if not any(isinstance(value, Sequence_) for value in values.values()):
        return args
    leaves = [_items(made, values.get(ref), key) for ref, made in zip(returned, args[0], strict=True)]
    return (tuple(leaf for each in leaves for leaf in each),)


def _items(node: Any, value: Value | None, key: str) -> list[Any]:
    """Return the node, or, of a sequence, new nodes that pick its tensors and numbers."""
    if not isinstance(value, Sequence_):
        return [node]
    picked: list[Any] = []
    for number, item in enumerate(value.items):
        if not isinstance(item, Opaque):
            pick = node.graph.call_function(operator.getitem, (node, number))
            if key in node.meta:
                pick.meta[key] = node.meta[key][number]
            picked += _items(pick, item, key)
    return picked


def _function(node: Node, fx_node: torch.fx.Node) -> Any:
    """Return the function that Dynamo notes as the node's source.

    For an op within a module of torch, and for a call of a module, this is the module's class.
    """
    if node.modules:
        innermost = _class_of(node.modules[-1][2])
        if node.op == "call_module" or _is_of_torch(innermost.__module__):
            return innermost
    return fx_node.target


@functools.cache
def _class_of(name: str) -> type:
    """Return the class of a module around an op.

    If this process has not imported the class, for example a class of the script, a new class has the same name.
    """
    module, _, qualname = name.partition(":")
    try:
        kind: Any = functools.reduce(getattr, qualname.split("."), sys.modules[module])
    except (KeyError, AttributeError):
        kind = None
    if isinstance(kind, type):
        return kind
    return type(qualname.rpartition(".")[2], (torch.nn.Module,), {"__module__": module, "__qualname__": qualname})


def _is_of_torch(module: str) -> bool:
    is_container = module.startswith("torch.nn.modules.container")
    return module.startswith(("torch.nn.modules", "torch.ao.")) and not is_container


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
