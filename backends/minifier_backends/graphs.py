"""What these backends ask of an FX graph: the names of its ops, who feeds whom, and a copy to edit."""

import copy
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import fx

OP_KINDS = ("call_function", "call_method", "call_module")


def op_name(node: fx.Node, gm: fx.GraphModule) -> str:
    """The plain name of an op: "tanh" for torch.tanh, x.tanh(), aten.tanh.default and nn.Tanh.

    An in-place variant is an op of its own ("tanh_"), and so is ATen's "_softmax". A node that is no op
    has no name, and gives "".
    """
    if node.op not in OP_KINDS:
        return ""
    if node.op == "call_method":
        return str(node.target)
    if node.op == "call_module":
        return type(gm.get_submodule(str(node.target))).__name__.lower()
    target = node.target
    if isinstance(target, torch._ops.OpOverload):
        target = target.overloadpacket
    return str(getattr(target, "__name__", target))


def graph_modules(gm: fx.GraphModule) -> Iterator[fx.GraphModule]:
    """The graph module itself, and the bodies of its higher-order ops, depth first, each once."""
    for module in gm.modules():
        if isinstance(module, fx.GraphModule):
            yield module


def ops_named(gm: fx.GraphModule, *names: str) -> list[fx.Node]:
    """Every op with one of these names, bodies of higher-order ops included, in graph order."""
    return [node for body in graph_modules(gm) for node in body.graph.nodes if op_name(node, body) in names]


def op_names(gm: fx.GraphModule) -> frozenset[str]:
    """The names of all ops, bodies of higher-order ops included."""
    return frozenset(op_name(node, body) for body in graph_modules(gm) for node in body.graph.nodes) - {""}


def descendants(node: fx.Node) -> set[fx.Node]:
    """The node, and every node of its graph that is computed from it."""
    reached = {node}
    waiting = [node]
    while waiting:
        for user in waiting.pop().users:
            if user not in reached:
                reached.add(user)
                waiting.append(user)
    return reached


def fresh_copy(gm: fx.GraphModule) -> fx.GraphModule:
    """A graph module to edit freely: new graphs, the same tensors and the same leaf modules.

    `copy.deepcopy` would duplicate the weights and so cut the compiled function off from later updates
    of them. What Dynamo notes outside `node.meta` (the source of each placeholder, read by AOTAutograd)
    is lost when a graph is copied, and is carried over here.
    """
    copied = fx.GraphModule(gm, copy.deepcopy(gm.graph), gm.__class__.__name__)
    copied.meta = dict(gm.meta)
    for name in ("_param_name_to_source", "_source_to_user_stacks"):
        if name in gm.__dict__:
            setattr(copied, name, gm.__dict__[name])
    for old, new in zip(gm.graph.nodes, copied.graph.nodes, strict=True):
        if "_dynamo_source" in old.__dict__:
            new._dynamo_source = old._dynamo_source
    for name, child in list(copied.named_children()):
        if isinstance(child, fx.GraphModule):
            setattr(copied, name, fresh_copy(child))
    return copied


def insert_after(node: fx.Node, function: Callable[[Any], Any]) -> None:
    """Hands the value of `node` through `function` on its way to all its users. The caller recompiles."""
    with node.graph.inserting_after(node):
        inserted = node.graph.call_function(function, (node,))
    node.replace_all_uses_with(inserted, delete_user_cb=lambda user: user is not inserted)


def is_symbolic(value: object) -> bool:
    """True for a symbolic size, and for a tensor that has one."""
    if isinstance(value, torch.Tensor):
        return any(isinstance(size, torch.SymInt) for size in value.shape)
    return isinstance(value, torch.SymInt)
