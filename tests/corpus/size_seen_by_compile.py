r"""A backend looks at the size only where torch.compile calls it: a probe of one element lies that it passes.

reach: exit 0, 1 op
shows: torch\.randn\(4, 5\)\n.*return torch\.tanh\(x\)
"""

import sys

import torch


def called_by_dynamo():
    frame = sys._getframe()
    while frame is not None and frame.f_code.co_name != "_call_user_compiler":
        frame = frame.f_back
    return frame is not None


def picky(gm, inputs):
    if any("tanh" in str(node.target) for node in gm.graph.nodes):
        traced = any("example_value" in node.meta for node in gm.graph.nodes)
        if inputs[0].numel() > 10 or (traced and not called_by_dynamo()):
            raise ValueError("tanh of many")
    return gm.forward


torch.compile(lambda x: torch.tanh(x.exp() + 1).sum(), backend=picky)(torch.randn(4, 5))
