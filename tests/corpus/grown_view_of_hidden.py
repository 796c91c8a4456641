"""Wrong shape: a view that is resized after the graph turns out to be its base, the same tensor object.

source: https://github.com/pytorch/pytorch/issues/191449
reach: exit 0, 8 statements
shows: resize_
"""

import torch
import torch.nn.functional as F
from torch import nn


class GrowingBuffer(nn.Module):
    """Keeps a flat view of its features, and makes room behind it for later ones."""

    def __init__(self, width=4):
        super().__init__()
        self.norm, self.body = nn.LayerNorm(width), nn.Linear(width, width)

    def forward(self, x):
        features = F.gelu(self.body(self.norm(x))).squeeze(0)
        features = features * torch.sigmoid(features)
        flat = features.view(-1)
        flat.resize_(12)
        return features + 1


torch.manual_seed(0)
model = GrowingBuffer().eval()
x = torch.randn(1, 4)
with torch.no_grad():
    expected, compiled = model(x), torch.compile(model)(x)
print("eager", tuple(expected.shape), "compiled", tuple(compiled.shape))
assert compiled.shape == expected.shape
