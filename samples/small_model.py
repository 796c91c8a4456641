"""The model that most samples share: attention and a feed-forward block, twice. Does nothing by itself."""

import torch
from torch import nn


class Block(nn.Module):
    """Its feed-forward block is made of `steps`, functions of one tensor applied in order."""

    def __init__(self, width, steps):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.project = nn.Linear(width, 3 * width)
        self.expand = nn.Linear(width, 2 * width)
        self.shrink = nn.Linear(2 * width, width)
        self.steps = steps

    def forward(self, x):
        q, k, v = self.project(self.norm(x)).chunk(3, dim=-1)
        x = x + (q @ k.transpose(-2, -1)).softmax(dim=-1) @ v
        hidden = self.expand(x)
        for step in self.steps:
            hidden = step(hidden)
        return x + self.shrink(hidden)


class SmallModel(nn.Module):
    """Takes (batch, length, 16) and gives (batch, 4); only its second block uses the odd steps."""

    def __init__(self, steps=(torch.tanh,)):
        super().__init__()
        self.blocks = nn.ModuleList([Block(16, (torch.relu,)), Block(16, steps)])
        self.head = nn.Linear(16, 4)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean(dim=1))


def make_inputs(length=6):
    """The same (2, length, 16) tensor each time."""
    return torch.randn(2, length, 16, generator=torch.Generator().manual_seed(0))
