"""Inductor raises IndexError in a pass over the graph: a cumsum of a constant without dimensions.

source: https://github.com/pytorch/pytorch/issues/193265
reach: exit 0, 2 ops
shows: cumsum.*IndexError
"""

import torch
import torch.nn.functional as F
from torch import nn


class OrdinalHead(nn.Module):
    """Scores with thresholds that are sums of steps; `steps` is a number where there is one threshold."""

    def __init__(self, width=16, thresholds=1):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(width, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 1))
        self.thresholds = thresholds

    def forward(self, x):
        score = self.body(x).squeeze(-1)
        steps = torch.ones(() if self.thresholds == 1 else (self.thresholds,))
        cuts = steps.cumsum(0)
        logits = score.unsqueeze(-1) - cuts
        below = torch.sigmoid(logits)
        above = 1 - below
        return F.normalize(torch.cat([above, below], dim=-1), dim=-1)


torch.manual_seed(0)
head = OrdinalHead().eval()
with torch.no_grad():
    print(torch.compile(head)(torch.randn(4, 16)))
