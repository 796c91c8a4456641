r"""A backend runs a graph while it compiles it, to see what it makes: a running mean is updated twice.

reach: exit 0, 1 op
shows: backend=warms_up
"""

import torch


def warms_up(gm, inputs):
    gm(*inputs)
    return gm.forward


class Norm(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(4))
        self.head = torch.nn.Linear(4, 2)

    def forward(self, x):
        self.mean.mul_(0.9).add_(x.mean(0), alpha=0.1)
        return torch.relu(self.head(x - self.mean))


with torch.no_grad():
    torch.compile(Norm(), backend=warms_up)(torch.randn(8, 4))
