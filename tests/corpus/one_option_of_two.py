r"""The backend fails with one of two options; called by an exit handler, for the first time, without gradients.

reach: exit 0, 1 op
shows: torch\.tanh\(x\).*"fusion": "aggressive"
hides: depth|dynamic|no_grad
layer: soak
"""

import atexit

import torch


def fusing(gm, inputs, *, options=None):
    if (options or {}).get("fusion") == "aggressive" and any(node.target is torch.tanh for node in gm.graph.nodes):
        raise RuntimeError("no lowering for tanh")
    return gm.forward


options = {"fusion": "aggressive", "depth": 3}
f = torch.compile(lambda x: torch.tanh(x.sin()).cos(), backend=fusing, options=options, dynamic=False)
atexit.register(torch.no_grad()(f), torch.randn(4, 8))
