"""A change of the caller's tensor is lost: it is made through what dropout returns in evaluation, the input itself.

source: https://github.com/pytorch/pytorch/issues/195422
reach: exit 0, 2 ops
shows: dropout
"""

import torch
import torch.nn.functional as F
from torch import nn


class Accumulator(nn.Module):
    """Adds a projection to a running state in place, behind a dropout that does nothing in evaluation."""

    def __init__(self, width=8):
        super().__init__()
        self.dropout = nn.Dropout(0.5)
        self.norm, self.project = nn.LayerNorm(width), nn.Linear(width, width)
        self.head = nn.Sequential(nn.Linear(width, 16), nn.ReLU(), nn.Linear(16, 3))

    def forward(self, state, x):
        state = self.dropout(state)
        state += torch.tanh(self.project(self.norm(x)))
        weights = torch.softmax(self.head(state), dim=-1)
        return F.normalize(weights, dim=-1)


torch.manual_seed(0)
model = Accumulator().eval()
state, x = torch.zeros(4, 8), torch.randn(4, 8)
with torch.no_grad():
    torch.compile(model)(state, x)
print("state after the call:", state.abs().sum().item())
