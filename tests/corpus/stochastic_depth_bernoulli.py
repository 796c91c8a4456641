"""Eager raises, the compiled code returns numbers: probabilities above one under bernoulli.

source: https://github.com/pytorch/pytorch/issues/185246
reach: exit 0, 1 op
shows: bernoulli
"""

import torch
import torch.nn.functional as F
from torch import nn


class StochasticDepth(nn.Module):
    """Residual layers that are kept with a probability learned in logits, with the sigmoid forgotten."""

    def __init__(self, width=16):
        super().__init__()
        self.first, self.second = nn.Linear(width, width), nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)
        self.keep = nn.Parameter(torch.tensor([1.5, -0.2]))

    def forward(self, x):
        keep = torch.bernoulli(self.keep)
        hidden = self.norm(x)
        x = x + F.gelu(self.first(hidden)) * keep[0]
        hidden = F.layer_norm(x, x.shape[-1:])
        x = x + F.relu(self.second(hidden)) * keep[1]
        return torch.tanh(x).mean(dim=-1)


torch.manual_seed(0)
with torch.no_grad():
    print(torch.compile(StochasticDepth())(torch.randn(4, 16)))
