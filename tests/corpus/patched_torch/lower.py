import torch

if not torch.patched_for_lower:
    raise ImportError("unpatched")


def refuse(gm, inputs):
    if any(node.target is torch.tanh for node in gm.graph.nodes):
        raise ValueError("no lowering for tanh")
    return gm.forward
