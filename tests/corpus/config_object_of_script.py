r"""A configuration holds an object of the script, which the backend calls.

reach: exit 0, 1 op
shows: class Refuse:.*\ntorch\._inductor\.config\.post_grad_custom_post_pass = HELD\n.*def fn\(
layer: soak
"""

import torch
from configured import acme
from torch._inductor import config


class Refuse:
    def __init__(self, op):
        self.op = op

    def __call__(self, graph):
        if any(node.target is self.op for node in graph.nodes):
            raise NotImplementedError("refused")

    def uuid(self):
        return b"1"


HELD = Refuse(torch.tanh)
config.post_grad_custom_post_pass = HELD
torch.compile(lambda x: torch.relu(torch.tanh(x + 1)) * 2, backend=acme)(torch.ones(3))
