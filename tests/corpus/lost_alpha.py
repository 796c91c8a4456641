r"""A backend drops the keyword arguments of add and sub; the inputs are made in inference mode.

reach: exit 0, 1 op
shows: alpha=0\.5
hides: inference_mode|It takes a size
layer: soak
"""

import functools

import torch


def lower(gm, inputs, *, fuse=True):
    for node in gm.graph.nodes:
        if fuse and node.op == "call_function" and node.target in (torch.add, torch.sub) and len(node.args) == 2:
            node.kwargs = {}  # alpha goes with the rest
    gm.recompile()
    return gm


def mixed(x, y):
    gate = torch.sigmoid(x * y).mean(dim=-1, keepdim=True)
    return torch.sub(torch.add(torch.relu(x), torch.tanh(y), alpha=0.5), gate)


with torch.inference_mode():
    torch.compile(mixed, backend=functools.partial(lower, fuse=True))(torch.randn(3, 8), torch.randn(3, 8))
