r"""Inductor raises while it lowers: an area upsampling with dynamic sizes compares a symbolic window with a number.

source: https://github.com/pytorch/pytorch/issues/185575
reach: exit 0, 1 op
shows: (interpolate|adaptive_avg_pool2d)\(.*cannot determine truth value of Relational
"""

import torch
import torch.nn.functional as F
from torch import nn


class Pyramid(nn.Module):
    """Two levels of features, the coarse one enlarged by areas and added to the fine one."""

    def __init__(self, channels=6):
        super().__init__()
        self.stem = nn.Conv2d(3, channels, 3, padding=1)
        self.coarse = nn.Sequential(nn.Conv2d(channels, channels, 3, padding=1), nn.GroupNorm(2, channels), nn.SiLU())
        self.enlarge = nn.Upsample(scale_factor=2, mode="area")

    def forward(self, image):
        fine = torch.relu(self.stem(image))
        large = self.enlarge(self.coarse(fine))
        weight = torch.sigmoid(large.mean(dim=(2, 3), keepdim=True))
        return F.avg_pool2d(large * weight, 2) + fine


torch.manual_seed(0)
model = Pyramid().eval()
compiled = torch.compile(model, dynamic=True)
with torch.no_grad():
    for height, width in ((15, 19), (12, 16)):
        print(compiled(torch.randn(1, 3, height, width)).shape)
