"""Eager raises, the compiled code returns its input: logcumsumexp of a byte without dimensions.

source: https://github.com/pytorch/pytorch/issues/197807
reach: exit 0, 1 op
shows: logcumsumexp
"""

import torch
import torch.nn.functional as F
from torch import nn


class Counter(nn.Module):
    """Scales logits by a running count of steps, kept as a byte."""

    def __init__(self, width=12):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(width, 24), nn.ReLU(), nn.Linear(24, 6))

    def forward(self, x, steps):
        logits = self.body(F.layer_norm(x, x.shape[-1:]))
        total = torch.logcumsumexp(steps, dim=0)
        scale = 1.0 / (1.0 + total.float().sqrt())
        logits = logits * scale
        probabilities = torch.softmax(logits, dim=-1)
        return -(probabilities * probabilities.clamp(min=1e-6).log()).sum(dim=-1)


torch.manual_seed(0)
with torch.no_grad():
    print(torch.compile(Counter().eval())(torch.randn(3, 12), torch.tensor(4, dtype=torch.uint8)))
