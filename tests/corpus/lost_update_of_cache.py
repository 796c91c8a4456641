r"""A backend makes methods functional and forgets their effect: a cache made in inference mode is not updated.

reach: exit 0, 1 op
shows: \.add_\(
"""

import torch


def functional(gm, inputs):
    for node in gm.graph.nodes:
        if node.op == "call_method" and node.target in ("add_", "mul_"):
            node.target = node.target.removesuffix("_")
    gm.recompile()
    return gm.forward


def step(x, cache):
    hidden = torch.tanh(x) * 2
    cache.add_(hidden.mean(0))
    return torch.softmax(hidden + cache, -1)


with torch.inference_mode():
    torch.compile(step, backend=functional)(torch.randn(3, 4), torch.zeros(4))
