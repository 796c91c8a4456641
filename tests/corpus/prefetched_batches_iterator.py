"""Dynamo raises Unsupported: a list's iterator that the caller made is advanced inside the compiled code.

source: https://github.com/pytorch/pytorch/issues/146340
reach: exit 0, 6 statements
shows: tp_iternext|list_iterator
"""

import torch
import torch.nn.functional as F
from torch import nn


class Denoiser(nn.Module):
    """A few steps of a denoiser; each takes its noise level from a schedule that is shared with the caller."""

    def __init__(self, width=8, steps=3):
        super().__init__()
        self.steps = steps
        self.norm = nn.LayerNorm(width)
        self.inner, self.outer = nn.Linear(width, 16), nn.Linear(16, width)

    def step(self, x, level):
        hidden = F.silu(self.inner(self.norm(x)))
        return x - level * self.outer(hidden)

    def forward(self, x, levels):
        for _ in range(self.steps):
            level = next(levels)
            x = self.step(x, level)
        spread = x.std(dim=-1, keepdim=True)
        return x / (spread + 1e-5)


torch.manual_seed(0)
model = Denoiser().eval()
compiled = torch.compile(model, backend="eager", fullgraph=True)
schedule = [0.9, 0.5, 0.2, 0.1]
with torch.no_grad():
    levels = iter(schedule)
    sample = compiled(torch.randn(4, 8), levels)
    rest = list(levels)
print(sample.shape, rest)
