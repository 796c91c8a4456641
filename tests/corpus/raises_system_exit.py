r"""The backend raises SystemExit for an op; the program then ends its process by itself.

reach: exit 0, 1 op
shows: torch\.tanh\(x\)
says: SystemExit|exit
layer: soak
"""

import os

import torch


def exiting(gm, inputs):
    if any(node.target is torch.tanh for node in gm.graph.nodes):
        raise SystemExit("no lowering for tanh")
    return gm.forward


try:
    torch.compile(lambda x: torch.tanh(x + 1) * 2, backend=exiting)(torch.randn(4))
finally:
    os._exit(5)
