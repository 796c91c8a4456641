"""A backend that is wrong at relu if the script sets a flag, which no graph shows."""

import sys

import torch


def half_off(x):
    return torch.relu(x) + 0.5


def flagged(gm, inputs):
    for node in gm.graph.nodes:
        if node.target is torch.relu and getattr(sys.modules["__main__"], "FLAG", False):
            node.target = half_off
    gm.recompile()
    return gm.forward
