"""A backend's partition function gives the backward graph another constant.

reach: exit 0, 1 op
shows: cos
says: at fault  the backend's partition function, halves
run: --explain
"""

import torch
from functorch.compile import default_partition, make_boxed_func
from torch._dynamo.backends.common import aot_autograd


def halves(joint, *args, **kwargs):
    forward, backward = default_partition(joint, *args, **kwargs)
    for node in backward.graph.nodes:
        if node.target is torch.ops.aten.neg.default:
            node.target = torch.ops.aten.abs.default
    backward.recompile()
    return forward, backward


own = aot_autograd(fw_compiler=lambda gm, inputs: make_boxed_func(gm.forward), partition_fn=halves)
torch.compile(lambda x: x.sin().cos().sum(), backend=own)(torch.ones(8, requires_grad=True)).backward()
