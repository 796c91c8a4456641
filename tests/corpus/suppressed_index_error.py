r"""Dynamo lets an IndexError of the backend through as it is, and the program suppresses what its backend raises.

reach: exit 0, 1 op
shows: torch\.tanh\(x\).*IndexError
hides: suppress_errors
layer: soak
"""

import torch
import torch._dynamo.config


def forgetful(gm, inputs):
    return [gm.forward][sum(node.target is torch.tanh for node in gm.graph.nodes)]


torch._dynamo.config.suppress_errors = True
print(torch.compile(lambda x: torch.tanh(x.sin()).cos() * 2, backend=forgetful)(torch.randn(4, 8)).shape)
