r"""Eager raises, the compiled code returns a NaN: binary_cross_entropy of what is no probability.

reach: exit 0, 1 op
shows: binary_cross_entropy.*error_of|error_of.*binary_cross_entropy
hides: conv2d|linear
"""

import torch
from torch import nn
from torch.nn import functional as F


class Squeezed(nn.Module):
    """A convolution whose channels are weighted by what the whole image has in them."""

    def __init__(self, channels):
        super().__init__()
        self.place, self.norm = nn.Conv2d(channels, channels, 3, padding=1), nn.BatchNorm2d(channels)
        self.squeeze, self.excite = nn.Linear(channels, 2), nn.Linear(2, channels)

    def forward(self, x):
        y = torch.relu(self.norm(self.place(x)))
        weight = torch.sigmoid(self.excite(torch.relu(self.squeeze(y.mean(dim=(2, 3))))))
        return x + y * weight[:, :, None, None]


class Rain(nn.Module):
    """The chance of rain at some towns from a radar image; the calibration at the end overshoots."""

    def __init__(self, channels=6, towns=3):
        super().__init__()
        self.enter, self.layer = nn.Conv2d(1, channels, 3, padding=1), Squeezed(channels)
        self.towns = nn.Linear(channels, towns)
        nn.init.constant_(self.towns.bias, 1.5)

    def forward(self, radar, rained):
        features = self.layer(self.enter(radar)).mean(dim=(2, 3))
        chance = torch.sigmoid(self.towns(features)) * 1.4
        return F.binary_cross_entropy(chance, rained)


torch.manual_seed(0)
loss = torch.compile(Rain())(torch.randn(4, 1, 8, 8), torch.ones(4, 3))
print("loss", loss.item())
