r"""Counted wrong: the length of a full bounded deque is one too large within the compiled step.

source: https://github.com/pytorch/pytorch/pull/138194
reach: exit 0, 11 statements
cause: tracing
"""

from collections import deque

import torch
from torch import nn


class PlateauRate:
    """Lowers the rate as soon as the window of past losses is full and shows no progress."""

    def __init__(self, window):
        self.past = deque(maxlen=window)
        self.rate = 0.1

    def update(self, loss):
        self.past.append(loss)
        return torch.stack(tuple(self.past)).sum() / len(self.past)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(3, 8), nn.Softplus(), nn.Linear(8, 1))

    def forward(self, inputs):
        return self.inner(inputs)


def fit(net, plateau, steps):
    def step(inputs, targets):
        loss = (net(inputs) - targets).abs().mean()
        smooth = plateau.update(loss.detach())
        return loss / (1 + smooth), len(plateau.past)

    compiled_step = torch.compile(step, backend="aot_eager")
    optimizer = torch.optim.Adagrad(net.parameters(), lr=plateau.rate)
    for _ in range(steps):
        inputs = torch.randn(10, 3)
        loss, seen = compiled_step(inputs, inputs.amax(dim=1, keepdim=True))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"loss {loss.item():.5f} over {seen}")


torch.manual_seed(70)
fit(Net(), PlateauRate(window=2), steps=5)
