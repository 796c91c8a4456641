"""Wrong dtype: a cumsum of constants, replaced by an arange, forgets the dtype that it was asked for.

source: https://github.com/pytorch/pytorch/issues/189518
reach: exit 0, 2 ops
shows: cumsum.*(dtype|assert_close)
"""

import torch
import torch.nn.functional as F
from torch import nn


class SinePositions(nn.Module):
    """Image features with the positions that DETR makes from a mask of ones."""

    def __init__(self, channels=4):
        super().__init__()
        self.stem = nn.Conv2d(3, channels, 3, padding=1)
        self.mix = nn.Conv2d(channels, channels, 1)

    def forward(self, image):
        features = F.relu(self.mix(F.gelu(self.stem(image))))
        mask = torch.ones((image.shape[0], image.shape[2], image.shape[3]), dtype=torch.bool)
        rows = mask.cumsum(1, dtype=torch.bfloat16)
        pooled = F.adaptive_avg_pool2d(features, 1).flatten(1)
        weights = torch.softmax(pooled, dim=-1)
        return weights, rows


torch.manual_seed(0)
model = SinePositions().eval()
image = torch.randn(2, 3, 4, 4)
with torch.no_grad():
    weights, rows = torch.compile(model)(image)
    print("eager", model(image)[1].dtype, "compiled", rows.dtype)
