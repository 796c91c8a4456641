import torch


def refuse(gm, inputs):
    if any(node.target is torch.tanh for node in gm.graph.nodes):
        raise ValueError("no lowering for tanh")
    return gm.forward
