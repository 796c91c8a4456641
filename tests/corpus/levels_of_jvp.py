r"""A backend cannot lower what torch.func.jvp becomes in a graph: the script is reduced in place of that graph.

reach: exit 0, 8 statements
shows: jvp\(.*forward derivatives cannot be lowered
layer: soak
"""

import torch
from torch.func import jvp

LEVEL = {"_jvp_increment_nesting", "_enter_dual_level", "_make_dual", "_unpack_dual", "_exit_dual_level"}


def lower(gm, inputs):
    if LEVEL.issubset(getattr(node.target, "__name__", "") for node in gm.graph.nodes):
        raise NotImplementedError("forward derivatives cannot be lowered")
    return gm.forward


def loss(x):
    scaled = torch.tanh(x) * 2
    return torch.sin(scaled).sum() + x.exp().mean()


def slope(x):
    value, tangent = jvp(loss, (x,), (torch.ones_like(x),))
    return torch.relu(tangent) + value


torch.compile(slope, backend=lower)(torch.randn(3))
