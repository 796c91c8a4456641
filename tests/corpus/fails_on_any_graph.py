r"""The backend fails on any graph, for want of a device.

reach: exit 0, 1 op
shows: fails on any graph
says: the backend fails on any graph
layer: soak
"""

import torch


def refuse(gm, inputs):
    raise ValueError("no device")


torch.compile(lambda x: torch.tanh(x + 1) * 2, backend=refuse)(torch.randn(4))
