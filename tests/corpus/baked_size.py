"""A compiler without symbolic sizes bakes in the size that it compiles with; the next call is wrong.

reach: exit 0, 1 op
shows: compiles it with this size.*compiled with another size
layer: soak
"""

import torch


def number_or_node(node):
    value = node.meta["example_value"]
    return value.node.hint if isinstance(value, torch.SymInt) else node


def bakes(gm, example_inputs):
    for node in gm.graph.nodes:
        if node.op != "output":
            node.args = torch.fx.map_arg(node.args, number_or_node)
    gm.recompile()
    return gm.forward


@torch.compile(backend=bakes, dynamic=True)
def f(x, w):
    h = torch.tanh(x @ w) + 1
    h = h.view(x.shape[0] * 2, 3)
    return torch.relu(h).sum(1)


w = torch.ones(4, 6)
f(torch.ones(5, 4), w)
f(torch.ones(9, 4), w)
