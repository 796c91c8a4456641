r"""The message of a failure lists the ops of the graph: each candidate fails with another.

reach: exit 0, 1 op
shows: return torch\.erf\(x\)
layer: soak
"""

import torch


class EngineError(Exception):
    pass


def listing(gm, inputs):
    kinds = [node.target.__name__ for node in gm.graph.nodes if node.op == "call_function"]
    if "erf" in kinds:
        raise EngineError(f"the engine cannot be built: erf has no kernel; the partition holds {', '.join(kinds)}")
    return gm.forward


def f(x):
    for _ in range(3):
        x = torch.tanh(x * 2 + 1) / (torch.sigmoid(x) + 3)
    return torch.exp(torch.erf(torch.cos(x) - 1)) + torch.sin(x)


torch.compile(f, backend=listing)(torch.randn(4, 8))
