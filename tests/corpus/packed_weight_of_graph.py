r"""A backend packs the weights that a graph holds, as under inductor's freezing, and cannot pack that of bmm.

reach: exit 0, 1 op
shows: torch\.bmm\(.*PackingError: cannot pack the weight of bmm
layer: soak
"""

import torch
import torch._inductor.config

torch._inductor.config.freezing = True  # Dynamo leaves parameters in the graph, whatever the backend


class PackingError(Exception):
    pass


def packs(gm, inputs):
    held = {node.name for node in gm.graph.nodes if node.op == "get_attr"}
    for node in gm.graph.nodes:
        if node.target is torch.bmm and node.args[1].name in held:
            raise PackingError("cannot pack the weight of bmm")
    return gm.forward


weight = torch.nn.Parameter(torch.randn(2, 3, 4))
with torch.no_grad():
    torch.compile(lambda x: torch.bmm(x.tanh(), weight).relu(), backend=packs)(torch.randn(2, 5, 3))
