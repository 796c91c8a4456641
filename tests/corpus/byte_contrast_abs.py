"""Wrong numbers: the negative of the absolute value of bytes is computed in wider integers, and not wrapped.

source: https://github.com/pytorch/pytorch/issues/187018
reach: exit 0, 4 ops
shows: abs.*assert_close
"""

import torch
import torch.nn.functional as F
from torch import nn


class ContrastScore(nn.Module):
    """A score of an image from the checksum of its inverted bytes, and features of a small network."""

    def __init__(self, pixels=4):
        super().__init__()
        self.features = nn.Sequential(nn.Linear(pixels, 16), nn.ReLU(), nn.LayerNorm(16), nn.Linear(16, 2))

    def forward(self, image):
        inverted = -image.abs()
        checksum = torch.cat([inverted, inverted]).sum()
        scaled = image.float() / 255 - 0.5
        hidden = torch.tanh(self.features(scaled))
        return F.softmax(hidden, dim=-1), checksum


torch.manual_seed(0)
model = ContrastScore().eval()
image = torch.tensor([200, 200, 17, 3], dtype=torch.uint8)
with torch.no_grad():
    print("eager", model(image)[1], "compiled", torch.compile(model)(image)[1])
