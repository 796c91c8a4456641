r"""A backend divides integers downwards where they are to be truncated: few values of a single draw show it.

reach: exit 0, 1 op
shows: rounding_mode="trunc"
hides: It takes a size
"""

import torch


def floors(gm, inputs):
    for node in gm.graph.nodes:
        if node.kwargs.get("rounding_mode") == "trunc":
            node.kwargs = {**node.kwargs, "rounding_mode": "floor"}
    gm.recompile()
    return gm


torch.manual_seed(0)
x = torch.randint(-11, 12, (40,))
torch.compile(lambda x: torch.div(x + 1, 3, rounding_mode="trunc").clamp(-9, 9), backend=floors)(x)
