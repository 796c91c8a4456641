r"""Inductor raises AssertionError while it compiles: a product over a dimension with the dtype bool.

reach: exit 0, 1 op
shows: prod\(.*bool.*AssertionError
hides: linear|conv2d
"""

import torch
from torch import nn


class PatchMixer(nn.Module):
    """Mixes the patches of an image with each other, then the channels of each patch."""

    def __init__(self, patches, width):
        super().__init__()
        self.over_patches, self.over_channels = nn.Linear(patches, patches), nn.Linear(width, width)
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x):
        x = x + torch.relu(self.over_patches(self.first(x).mT)).mT
        return x + nn.functional.gelu(self.over_channels(self.second(x)))


class GatedMixer(nn.Module):
    """Drops the patches that have a dead channel after the first mixer."""

    def __init__(self, width=16):
        super().__init__()
        self.embed = nn.Conv2d(1, width, 4, stride=4)
        self.before, self.after, self.head = PatchMixer(9, width), PatchMixer(9, width), nn.Linear(width, 4)

    def forward(self, image):
        x = self.before(self.embed(image).flatten(2).mT)
        alive = torch.prod(torch.relu(x + 2.5), dim=-1, dtype=torch.bool)
        x = self.after(x * alive.unsqueeze(-1))
        return self.head(x.mean(dim=1)).log_softmax(dim=-1)


torch.manual_seed(0)
model = GatedMixer().eval()
with torch.no_grad():
    print(torch.compile(model)(torch.randn(3, 1, 12, 12)).shape)
