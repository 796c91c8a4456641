r"""The second of three graphs, between graph breaks, cannot be compiled.

reach: exit 0, 1 op
shows: torch\.tanh\(x\)
says: graph 2
layer: test
"""

import oddlib
import torch


def f(x):
    x = torch.cos(torch.sin(x))
    torch._dynamo.graph_break()
    x = torch.exp(torch.tanh(x)) + 1
    torch._dynamo.graph_break()
    return torch.sin(x)


torch.compile(f, backend="oddlib_tanh")(torch.randn(3))
