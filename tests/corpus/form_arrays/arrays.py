import operator

import numpy as np
import torch
from torch._dynamo import register_backend


def _softmax(x, dim=-1):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


FUNCTIONS = {
    torch.softmax: _softmax,
    torch.relu: lambda x: np.maximum(x, 0),
    torch.tanh: np.tanh,
    torch._C._nn.linear: lambda x, w, b=None: x @ w.T + (0 if b is None else b),
    operator.add: np.add,
}


class Arrays(torch.fx.Interpreter):
    def call_function(self, target, args, kwargs):
        return FUNCTIONS[target](*args, **kwargs)


@register_backend
def arrays(gm: torch.fx.GraphModule, inputs: list[torch.Tensor]):
    calls = [node for node in gm.graph.nodes if node.op not in ("placeholder", "output")]
    if not all(node.target in FUNCTIONS for node in calls):
        return gm.forward

    def run(*args):
        results = Arrays(gm).run(*(arg.detach().numpy() for arg in args))
        return tuple(torch.from_numpy(np.ascontiguousarray(result)) for result in results)

    return run
