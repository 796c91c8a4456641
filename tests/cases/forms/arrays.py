"""A first backend: each op becomes a function of numpy arrays.

Fault: the softmax is over the last axis, whatever `dim` says; small rounding everywhere.
"""

from __future__ import annotations

import operator

import numpy as np
import torch
from torch._dynamo import register_backend


def _softmax(x, dim=-1):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


FUNCTIONS = {
    torch.softmax: _softmax,
    torch.nn.functional.softmax: lambda x, dim=-1, **_: _softmax(x, dim),
    torch.relu: lambda x: np.maximum(x, 0),
    torch.tanh: np.tanh,
    torch.exp: np.exp,
    torch._C._nn.linear: lambda x, w, b=None: x @ w.T + (0 if b is None else b),
    operator.add: np.add,
    operator.mul: np.multiply,
}


@register_backend
def arrays(gm: torch.fx.GraphModule, inputs: list[torch.Tensor]):
    unknown = {node.target for node in gm.graph.nodes if node.op == "call_function"} - FUNCTIONS.keys()
    if unknown or any(node.op in ("call_method", "call_module", "get_attr") for node in gm.graph.nodes):
        return gm.forward
    placeholders = [node for node in gm.graph.nodes if node.op == "placeholder"]

    def run(*args):
        values = {
            p: a.detach().numpy() if isinstance(a, torch.Tensor) else a for p, a in zip(placeholders, args, strict=True)
        }
        for node in gm.graph.nodes:
            if node.op == "call_function":
                read = values.__getitem__
                given = torch.fx.map_arg(node.args, read), torch.fx.map_arg(node.kwargs, read)
                values[node] = FUNCTIONS[node.target](*given[0], **given[1])
            elif node.op == "output":
                results = torch.fx.map_arg(node.args[0], values.__getitem__)
                return tuple(torch.from_numpy(np.ascontiguousarray(r)) for r in results)

    return run
