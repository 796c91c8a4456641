r"""The backend refuses a custom op that a library beside the program defines.

reach: exit 0, 1 op
shows: import shelf\n.*triple
layer: soak
"""

import shelf
import torch


def refuse(gm, inputs):
    if any("triple" in str(node) for node in gm.graph.nodes):
        raise ValueError("no lowering for triple")
    return gm.forward


torch.compile(lambda x: shelf.triple(torch.sin(x)).cos(), backend=refuse)(torch.randn(4))
