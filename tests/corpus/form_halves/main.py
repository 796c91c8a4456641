r"""Each half of the joint graph is executed as source text; that of a backward half lacks a name, for rsqrt.

reach: exit 0, 2 ops
shows: rsqrt.*\.backward\(.*NameError
layer: soak
"""

import torch
from halves import backend

first, last = torch.nn.Linear(4, 8), torch.nn.Linear(8, 2)


def model(x):
    x = first(x)
    return last(torch.nn.functional.silu(x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)))


loss = torch.compile(model, backend=backend)(torch.randn(5, 4)).square().mean()
loss.backward()
torch.optim.SGD(last.parameters(), 0.1).step()
