r"""Wrong strides: channel_shuffle returns a contiguous tensor for an input in channels_last.

source: https://github.com/pytorch/pytorch/issues/197109
reach: exit 0, 1 op
shows: channel_shuffle.*stride
"""

import torch
import torch.nn.functional as F
from torch import nn


class ShuffleUnit(nn.Module):
    """A unit of ShuffleNet; the caller wants rows of channels, as the layout channels_last has them."""

    def __init__(self, channels=8, groups=2):
        super().__init__()
        self.groups = groups
        self.reduce = nn.Conv2d(channels, channels, 1, groups=groups)
        self.depthwise = nn.Conv2d(channels, channels, 3, padding=1, groups=channels)
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, x):
        hidden = F.relu(self.norm(self.depthwise(self.reduce(x))))
        return F.channel_shuffle(hidden + x, self.groups)


torch.manual_seed(0)
unit = ShuffleUnit().eval().to(memory_format=torch.channels_last)
compiled = torch.compile(unit)
images = torch.randn(2, 8, 4, 5).to(memory_format=torch.channels_last)
with torch.no_grad():
    for run in (unit, compiled):
        rows = run(images).permute(0, 2, 3, 1).view(-1, 8)
        print(rows.shape)
