r"""Eager raises, the compiled code returns numbers: celu with an alpha that has been annealed to zero.

source: https://github.com/pytorch/pytorch/issues/178480
reach: exit 0, 1 op
shows: celu.*error_of|error_of.*celu
"""

import torch
from torch import nn


class AnnealedBlock(nn.Module):
    """A residual block with an activation whose alpha the schedule lowers."""

    def __init__(self, width=12, alpha=1.0):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.alpha = alpha

    def forward(self, x):
        hidden = nn.functional.celu(self.up(self.norm(x)), alpha=self.alpha)
        return x + self.down(torch.dropout(hidden, 0.0, self.training))


torch.manual_seed(0)
steps = 3
blocks = [AnnealedBlock(alpha=1.0 - step / (steps - 1)) for step in range(steps)]
x = torch.randn(8, 12)
with torch.no_grad():
    for step, block in enumerate(blocks):
        x = torch.compile(block.eval())(x)
        print(step, block.alpha, x.norm().item())
