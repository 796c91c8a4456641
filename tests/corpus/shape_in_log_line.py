"""Dynamo raises InternalTorchDynamoError: a dynamic size in an f-string with a format.

source: https://github.com/pytorch/pytorch/issues/197093
reach: exit 0, 4 statements
shows: shape|size
"""

import torch
import torch.nn.functional as F
from torch import nn


class Labelled(nn.Module):
    """A small encoder that names its features by their number, for a log."""

    def __init__(self, width=8):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.body = nn.Sequential(nn.Linear(width, 16), nn.GELU(), nn.Linear(16, width))
        self.names = []

    def forward(self, x):
        hidden = x + self.body(self.norm(x))
        name = f"batch-{hidden.shape[0]:03d}"
        weights = torch.softmax(hidden, dim=0)
        pooled = (hidden * weights).sum(dim=0)
        pooled = F.normalize(pooled, dim=0) * torch.sigmoid(pooled.mean())
        return pooled, name


torch.manual_seed(0)
model = Labelled().eval()
with torch.no_grad():
    for size in (5, 7):
        print(torch.compile(model, backend="eager", dynamic=True)(torch.randn(size, 8))[1])
