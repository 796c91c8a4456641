"""Eager raises, the compiled code draws numbers: torch.normal with standard deviations below zero.

source: https://github.com/pytorch/pytorch/issues/185246
reach: exit 0, 1 op
shows: normal
"""

import torch
import torch.nn.functional as F
from torch import nn


class GaussianLatent(nn.Module):
    """A variational encoder that takes its standard deviations straight from a linear layer."""

    def __init__(self, width=10, latent=4):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(width, 16), nn.Tanh(), nn.LayerNorm(16))
        self.mean, self.spread = nn.Linear(16, latent), nn.Linear(16, latent)
        self.decode = nn.Linear(latent, width)

    def forward(self, x):
        hidden = self.body(x)
        mean, spread = self.mean(hidden), self.spread(hidden)
        latent = torch.normal(mean, spread)
        restored = self.decode(F.gelu(latent))
        error = (restored - x).square().mean(dim=-1)
        return error + 0.1 * torch.softmax(latent, dim=-1).amax(dim=-1)


torch.manual_seed(0)
with torch.no_grad():
    print(torch.compile(GaussianLatent())(torch.randn(5, 10)))
