"""Pieces of the graph between attention ops, split by torch's own splitter; each piece remembers its first shape.

Fault: a piece with a sum over the tokens divides by the number of tokens of its first call.
"""

from __future__ import annotations

import torch
from torch._dynamo import register_backend
from torch.fx.passes.split_module import split_module

SPLITTING = {torch.nn.functional.scaled_dot_product_attention}


class Piece:
    def __init__(self, module: torch.fx.GraphModule) -> None:
        self.module = module
        self.scales = [node for node in module.graph.nodes if node.target == "mean" and node.op == "call_method"]
        self.tokens: int | None = None

    def __call__(self, *args):
        first = next(arg for arg in args if isinstance(arg, torch.Tensor))
        now = first.shape[-2] if first.dim() > 1 else 1
        self.tokens = now if self.tokens is None else self.tokens
        result = self.module(*args)
        if self.scales and now != self.tokens:
            scale = now / self.tokens
            return tuple(y * scale for y in result) if isinstance(result, tuple) else result * scale
        return result


@register_backend
def pieces(gm: torch.fx.GraphModule, inputs: list[torch.Tensor]):
    number, parts = 0, {}
    for node in gm.graph.nodes:
        if node.op in ("placeholder", "output"):
            continue
        is_splitting = node.target in SPLITTING
        number += is_splitting
        parts[node] = number
        number += is_splitting
    split = split_module(gm, None, parts.__getitem__, keep_original_order=True)
    for name, child in list(split.named_children()):
        if isinstance(child, torch.fx.GraphModule):
            split.__dict__[name] = Piece(child)
            del split._modules[name]
    return split.forward
