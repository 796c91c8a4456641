r"""An error on a GPU: with mode="reduce-overhead", predictions are kept that the next call overwrites.

source: https://github.com/pytorch/pytorch/issues/152887
reach: exit 0, 8 statements
shows: reduce-overhead
hides: Conv1d|LayerNorm
needs: cuda
"""

import torch
from torch import nn


class Traffic(nn.Module):
    """The traffic of the next hours on some roads."""

    def __init__(self, roads=10, width=32, hours=4):
        super().__init__()
        self.enter, self.along = nn.Linear(roads, width), nn.Conv1d(width, width, 5, padding=2)
        self.norm, self.leave = nn.LayerNorm(width), nn.Linear(width, hours)

    def forward(self, past):
        x = torch.tanh(self.enter(past))
        x = x + self.along(x.mT).mT
        return self.leave(self.norm(x)).amax(dim=1)


torch.manual_seed(0)
traffic = Traffic().cuda().eval()
compiled = torch.compile(traffic, mode="reduce-overhead")
weeks = torch.randn(5, 16, 12, 10, device="cuda")
with torch.no_grad():
    predictions = [compiled(week) for week in weeks]
    expected = traffic(weeks.flatten(0, 1))
    torch.testing.assert_close(torch.cat(predictions), expected, rtol=1e-3, atol=1e-3)
