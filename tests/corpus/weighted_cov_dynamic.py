r"""Fails with dynamic shapes alone, "Cannot call numel() on tensor with symbolic sizes": a weighted covariance.

reach: exit 0, 1 op
shows: cov\(\w+, aweights=\w+\).*dynamic=True|dynamic=True.*cov\(
hides: linalg|linear
layer: soak
"""

import torch
from torch import nn


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.change = nn.LayerNorm(width), nn.Linear(width, width)

    def forward(self, x):
        return x + torch.relu(self.change(self.norm(x)))


class Whitened(nn.Module):
    """Makes features independent of each other, by their covariance over the samples that matter."""

    def __init__(self, sizes=4, width=8):
        super().__init__()
        self.enter, self.matters, self.leave = nn.Linear(sizes, width), nn.Linear(width, 1), nn.Linear(width, 2)
        self.before = nn.Sequential(*[Residual(width) for _ in range(4)])
        self.after = nn.Sequential(*[Residual(width) for _ in range(3)])

    def forward(self, samples):
        x = self.before(self.enter(samples))
        weights = torch.sigmoid(self.matters(x)).squeeze(-1)
        covariance = torch.cov(x.mT, aweights=weights)
        x = torch.linalg.solve(covariance + torch.eye(8), x.mT).mT
        return self.leave(self.after(x))


torch.manual_seed(0)
model = Whitened().eval()
compiled = torch.compile(model, backend="eager", dynamic=True)
with torch.no_grad():
    for count in (15, 22):
        samples = torch.randn(count, 4)
        print(count, (compiled(samples) - model(samples)).abs().max().item())
