"""Backends that run what they are given as it is, and refuse some graphs."""

from collections.abc import Callable, Sequence

import torch
from torch._dynamo import register_backend
from torch._dynamo.backends.common import aot_autograd


def called(module: torch.fx.GraphModule) -> set[str]:
    """The names of what the graph calls."""
    found = set()
    for node in module.graph.nodes:
        if node.op == "call_function":
            found.add(getattr(node.target, "__name__", str(node.target)))
        elif node.op == "call_method":
            found.add(node.target)
    return found


@register_backend
def pocket_one(module: torch.fx.GraphModule, inputs: Sequence[torch.Tensor]) -> Callable:
    """Has no kernel for mish."""
    if "mish" in called(module):
        raise NotImplementedError("pocket: no kernel for mish")
    return module.forward


@register_backend
def pocket_two(module: torch.fx.GraphModule, inputs: Sequence[torch.Tensor]) -> Callable:
    """Cannot have a cumsum and a tanh in one graph, wherever they are."""
    if {"cumsum", "tanh"} <= called(module):
        raise RuntimeError("pocket: out of scratch registers after scan and saturation")
    return module.forward


@register_backend
def pocket_nothing(module: torch.fx.GraphModule, inputs: Sequence[torch.Tensor]) -> Callable:
    """Takes every graph and does nothing with it."""
    return module.forward


def _compile_backward(module: torch.fx.GraphModule, inputs: Sequence[torch.Tensor]) -> Callable:
    if any("tanh_backward" in name for name in called(module)):
        raise NotImplementedError("pocket: no kernel for the gradient of tanh")
    return module.forward


# Takes every forward graph, but no gradient of tanh.
pocket_train = register_backend(
    name="pocket_train",
    compiler_fn=aot_autograd(fw_compiler=lambda module, inputs: module.forward, bw_compiler=_compile_backward),
)
