r"""The backend has two errors of nearly the same text; the whole graph shows the first, its parts the second.

reach: exit 0, 2 ops
shows: layer_norm\(.*torch\.tanh\(.*fusion\.cc:120
says: fusion\.cc:188
layer: soak
"""

import torch
from torch.nn import functional as F


def fuse(gm, inputs):
    called = {node.target for node in gm.graph.nodes}
    if {torch.tanh, F.layer_norm} <= called:
        raise RuntimeError("fusion.cc:120: cannot fuse tanh: unsupported producer layer_norm")
    if torch.tanh in called:
        raise RuntimeError("fusion.cc:188: cannot fuse tanh: missing producer of its value")
    return gm.forward


def f(x):
    x = F.layer_norm(x, (8,))
    for _ in range(6):
        x = torch.sin(x) * 1.5
    return torch.cos(torch.tanh(x))


torch.compile(f, backend=fuse)(torch.randn(4, 8))
