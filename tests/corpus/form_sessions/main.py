r"""Supported ops run in sessions, whose backend is one for the same options: two results come back in another order.

reach: exit 0, 2 ops
shows: sigmoid.*SessionBackend\(|SessionBackend\(.*sigmoid
layer: soak
"""

import torch
from sessions import make_backend

torch.manual_seed(0)
gate, up, down = torch.nn.Linear(6, 12), torch.nn.Linear(6, 12), torch.nn.Linear(12, 6)


def gated(x):
    return down(torch.cat([torch.sigmoid(gate(x)), torch.tanh(up(x))], 0)).relu()


with torch.no_grad():
    print(torch.compile(gated, backend=make_backend(dynamic=False))(torch.randn(3, 6)).sum())
