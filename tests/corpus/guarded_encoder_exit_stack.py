"""Dynamo raises Unsupported: a context is entered through an ExitStack.

source: https://github.com/pytorch/pytorch/issues/109309
reach: exit 0, 8 statements
shows: ExitStack|enter_context|skipped
"""

import contextlib

import torch
from torch import nn


class Encoder(nn.Module):
    """An encoder whose lower part can be frozen."""

    def __init__(self, width=8, frozen=True):
        super().__init__()
        self.frozen = frozen
        self.lower = nn.Sequential(nn.Linear(width, 16), nn.Tanh())
        self.upper = nn.Sequential(nn.Linear(16, 16), nn.GELU(), nn.Linear(16, 4))
        self.scale = nn.Parameter(torch.ones(4))

    def forward(self, x):
        with contextlib.ExitStack() as stack:
            if self.frozen:
                stack.enter_context(torch.no_grad())
            hidden = self.lower(x)
            hidden = hidden - hidden.mean(dim=-1, keepdim=True)
        logits = self.upper(hidden) * self.scale
        return torch.log_softmax(logits, dim=-1)


torch.manual_seed(0)
model = Encoder()
compiled = torch.compile(model, backend="eager", fullgraph=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    optimizer.zero_grad()
    loss = -compiled(torch.randn(6, 8))[:, 0].mean()
    loss.backward()
    optimizer.step()
    print(float(loss))
