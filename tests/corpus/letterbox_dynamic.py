r"""Inductor raises with dynamic shapes, "Exponent must be non-negative": a padded image in another order of dimensions.

reach: exit 0, 2 ops
shows: pad\(.*permute\(.*dynamic=True.*Exponent must be non-negative
hides: interpolate|linear
"""

import torch
from torch import nn
from torch.nn import functional as F


class LastChannels(nn.Module):
    """A depthwise convolution and a network over channels, with the channels in the last dimension."""

    def __init__(self, width):
        super().__init__()
        self.place = nn.Conv2d(width, width, 3, padding=1, groups=width)
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        y = self.place(x.movedim(-1, 1)).movedim(1, -1)
        return x + self.down(F.gelu(self.up(self.norm(y))))


class Plates(nn.Module):
    """Reads number plates; a picture is scaled and gets a border, the size of both is up to the caller."""

    def __init__(self, width=12, depth=3):
        super().__init__()
        self.smooth, self.embed = nn.Conv2d(3, 3, 3, padding=1), nn.Linear(3, width)
        self.layers = nn.Sequential(*[LastChannels(width) for _ in range(depth)])
        self.read = nn.Linear(width, 5)

    def forward(self, picture, size, border):
        picture = F.interpolate(torch.sigmoid(self.smooth(picture)), size=size)
        picture = F.pad(picture, border).permute(0, 2, 3, 1)
        return self.read(self.layers(self.embed(picture)).mean(dim=(1, 2)))


torch.manual_seed(0)
plates = torch.compile(Plates().eval(), dynamic=True)
with torch.no_grad():
    print(plates(torch.rand(2, 3, 18, 26), (14, 20), [3, 1, 2, 4]).shape)
