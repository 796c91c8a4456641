"""A Graph from a torch.fx.GraphModule."""

from __future__ import annotations

import functools
import os
import re
from typing import Any

import torch

from minifier.case.graph import NOTHING, Graph, Module, Node
from minifier.case.values import Scalar
from minifier.errors import CannotSave
from minifier.fx.names import path_of
from minifier.fx.node_arguments import meta_of, read
from minifier.fx.tensors import TensorFile
from minifier.fx.triton_launches import launch_as_data
from minifier.interfaces.names import LAUNCH


def _source_line(node: torch.fx.Node) -> str:
    """Return the user's line for the node: the code of its innermost frame, without the path."""
    lines = [line.strip() for line in (node.meta.get("stack_trace") or "").splitlines()]
    code = [line for line in lines if line.strip("^~ ") and not line.startswith('File "')]
    return code[-1] if code else ""


_FRAME = re.compile(r'^\s*File "(?P<file>[^"\n]+)", line (?P<line>\d+), in ', re.MULTILINE)
_TORCH = os.path.join(os.path.dirname(torch.__file__), "")


def _place(node: torch.fx.Node) -> str:
    """Return the file's base name and the line of the node's innermost frame outside torch: `model.py:14`."""
    frames = list(_FRAME.finditer(node.meta.get("stack_trace") or ""))
    own = [frame for frame in frames if not frame["file"].startswith(_TORCH)] or frames
    return f"{os.path.basename(own[-1]['file'])}:{own[-1]['line']}" if own else ""


def _origin(node: torch.fx.Node) -> str:
    """Return Dynamo's first name for the op, or for the forward op of a backward op.

    AOTAutograd's nodes keep this name; Dynamo's own graph may rename the op after a variable."""
    stack = node.meta.get("fwd_source_fn_stack") or node.meta.get("source_fn_stack")
    return str(stack[-1][0]) if stack else ""


def _modules(node: torch.fx.Node) -> tuple[tuple[str, str, str], ...]:
    """Return the modules around the op as key, path in the model, and `module:qualname` of the class."""
    stack: dict[str, tuple[str, Any]] = node.meta.get("nn_module_stack") or {}
    return tuple((str(key), path, _class_name(kind)) for key, (path, kind) in stack.items())


def _class_name(kind: Any) -> str:
    return f"{kind.__module__}:{kind.__qualname__}" if isinstance(kind, type) else str(kind)


def _plain_attributes(module: torch.nn.Module, where: str) -> dict[str, Any]:
    registered = {**module._parameters, **module._buffers, **module._modules}
    attributes: dict[str, Any] = {name: None for name, value in registered.items() if value is None}
    for name, value in vars(module).items():
        if name.startswith("_") or name == "training":
            continue
        try:
            attributes[name] = read(value)
        except CannotSave as error:
            raise CannotSave(f"{where}.{name}: {error}") from None
    return attributes


def read_module(module: torch.nn.Module, where: str, tensors: TensorFile) -> Module:
    """Return a module or nested graph as plain data. Raises CannotSave with the attribute's name."""
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


def read_graph(module: torch.fx.GraphModule, tensors: TensorFile, prefix: str = "") -> Graph:
    """Return the graph as plain data, and add its tensors to `tensors`.

    Raises CannotSave naming the node and the value without a readable form.
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
                attribute: Any = functools.reduce(getattr, target.split("."), module)
                if isinstance(attribute, torch.Tensor):
                    attributes[target] = tensors.add(prefix + target, attribute)
                elif isinstance(attribute, torch.nn.Module):
                    modules[target] = read_module(attribute, prefix + target, tensors)
                else:
                    raise CannotSave(f"an attribute of type {type(attribute).__qualname__}")
            args = read(tuple(node.args), numbers)
            if target == LAUNCH:
                kwargs = launch_as_data(node.kwargs, lambda value: read(value, numbers))
            else:
                kwargs = read(dict(node.kwargs), numbers)
        except CannotSave as error:
            called = target or getattr(node.target, "__name__", node.target)
            raise CannotSave(f"node {node.name} of the graph ({node.op} {called}) uses {error}") from None
        example = node.meta.get("example_value", node.meta.get("val"))
        value = NOTHING if example is None else meta_of(example, storages)
        if isinstance(value, Scalar) and value.symbol is not None:
            numbers.setdefault(value.symbol, node.name)
        facts = _source_line(node), _origin(node), _modules(node), _place(node)
        nodes.append(Node(node.name, node.op, target, args, kwargs, value, *facts))
    return Graph(tuple(nodes), attributes, modules)
