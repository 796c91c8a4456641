r"""The second of three graphs, between graph breaks, cannot be compiled, by a backend that aot_autograd made.

reach: exit 0, 1 op
shows: torch\.tanh\(x\).*aot_autograd\(fw_compiler=refusing\)
says: graph 2
layer: soak
"""

import torch
from oddlib.backends import refusing
from torch._dynamo.backends.common import aot_autograd


def f(x):
    x = torch.cos(torch.sin(x))
    torch._dynamo.graph_break()
    x = torch.exp(torch.tanh(x)) + 1
    torch._dynamo.graph_break()
    return torch.sin(x)


torch.compile(f, backend=aot_autograd(fw_compiler=refusing))(torch.randn(3))
