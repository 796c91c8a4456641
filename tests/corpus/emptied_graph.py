r"""The backend empties its graph before it fails; it is given to torch._dynamo.optimize.

reach: exit 0, 1 op
shows: torch\.tanh\(x\)
layer: soak
"""

import torch


def rewriting(gm, inputs):
    is_refused = any(node.target is torch.tanh for node in gm.graph.nodes)
    for node in reversed(list(gm.graph.nodes)):
        if node.op == "output":
            node.args = ((),)
        elif node.op != "placeholder":
            gm.graph.erase_node(node)
    gm.recompile()
    if is_refused:
        raise RuntimeError("no lowering for tanh")
    return gm.forward


torch._dynamo.optimize(rewriting)(lambda x: torch.tanh(x.sin()).cos() * 2)(torch.randn(4, 8))
