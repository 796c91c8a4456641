"""A torch.fx.GraphModule as a Graph."""

from __future__ import annotations

from typing import Any

import torch

from minifier.case.graph import Graph, Module, Node
from minifier.case.targets import LAUNCH
from minifier.case.values import Opaque, Scalar
from minifier.errors import CannotSave
from minifier.fx.names import path_of
from minifier.fx.node_arguments import meta_of, read
from minifier.fx.tensors import TensorFile
from minifier.fx.triton_launches import launch_as_data


def _source_line(node: torch.fx.Node) -> str:
    """The user's line behind the node: the code of the innermost frame of its stack, without the path."""
    lines = [line.strip() for line in (node.meta.get("stack_trace") or "").splitlines()]
    code = [line for line in lines if line.strip("^~ ") and not line.startswith('File "')]
    return code[-1] if code else ""


def _origin(node: torch.fx.Node) -> str:
    """What Dynamo called the op at first, by which nodes that AOTAutograd made of it know it (in its own graph it
    may have got a variable's name since); a backward op knows its forward's."""
    stack = node.meta.get("fwd_source_fn_stack") or node.meta.get("source_fn_stack")
    return str(stack[-1][0]) if stack else ""


def _plain_attributes(module: torch.nn.Module, where: str) -> dict[str, Any]:
    held = {**module._parameters, **module._buffers, **module._modules}
    found: dict[str, Any] = {name: None for name, value in held.items() if value is None}
    for name, value in vars(module).items():
        if name.startswith("_") or name == "training":
            continue
        try:
            found[name] = read(value)
        except CannotSave as error:
            raise CannotSave(f"{where}.{name}: {error}") from None
    return found


def read_module(module: torch.nn.Module, where: str, tensors: TensorFile) -> Module:
    """A module that the graph calls, or a nested graph; raises CannotSave with the attribute's name."""
    if isinstance(module, torch.fx.GraphModule):
        inner = read_graph(module, tensors, prefix=f"{where}.")
        return Module("torch.fx.GraphModule", graph=inner, training=module.training)
    if module._forward_hooks or module._forward_pre_hooks:
        raise CannotSave(f"the module {where}, which has forward hooks")
    return Module(
        type=path_of(type(module)),
        plain=_plain_attributes(module, where),
        parameters={n: tensors.add(f"{where}.{n}", p) for n, p in module._parameters.items() if p is not None},
        buffers={n: tensors.add(f"{where}.{n}", b) for n, b in module._buffers.items() if b is not None},
        children={n: read_module(c, f"{where}.{n}", tensors) for n, c in module._modules.items() if c is not None},
        training=module.training,
    )


def _attribute(root: torch.nn.Module, target: str) -> Any:
    found: Any = root
    for part in target.split("."):
        found = getattr(found, part)
    return found


def read_graph(module: torch.fx.GraphModule, tensors: TensorFile, prefix: str = "") -> Graph:
    """The graph as plain data; tensors that it holds go to `tensors`.

    Raises CannotSave naming the node and what about it has no readable form.
    """
    nodes: list[Node] = []
    attributes: dict[str, str] = {}
    modules: dict[str, Module] = {}
    storages: dict[object, int] = {}
    numbers: dict[str, str] = {}
    for node in module.graph.nodes:
        target = node.target if isinstance(node.target, str) else None
        try:
            if target is None:
                target = path_of(node.target)
            elif node.op == "call_module":
                modules[target] = read_module(module.get_submodule(target), prefix + target, tensors)
            elif node.op == "get_attr":
                held = _attribute(module, target)
                if isinstance(held, torch.Tensor):
                    attributes[target] = tensors.add(prefix + target, held)
                elif isinstance(held, torch.nn.Module):
                    modules[target] = read_module(held, prefix + target, tensors)
                else:
                    raise CannotSave(f"an attribute of type {type(held).__qualname__}")
            args = read(tuple(node.args), numbers)
            if target == LAUNCH:
                kwargs = launch_as_data(node.kwargs, lambda value: read(value, numbers))
            else:
                kwargs = read(dict(node.kwargs), numbers)
        except CannotSave as error:
            called = target or getattr(node.target, "__name__", node.target)
            raise CannotSave(f"node {node.name} of the graph ({node.op} {called}) uses {error}") from None
        example = node.meta.get("example_value", node.meta.get("val"))
        value = Opaque("nothing") if example is None else meta_of(example, storages)
        if isinstance(value, Scalar) and value.symbol is not None:
            numbers.setdefault(value.symbol, node.name)
        nodes.append(Node(node.name, node.op, target, args, kwargs, value, _source_line(node), _origin(node)))
    return Graph(tuple(nodes), attributes, modules)
