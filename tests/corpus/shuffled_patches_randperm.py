r"""Inductor raises RuntimeError in its pattern matcher: a tensor is indexed by a random permutation.

source: https://github.com/pytorch/pytorch/issues/183988
reach: exit 0, 2 ops
shows: randperm\(.*Not all inputs to pattern found
"""

import torch
from torch import nn


class ShuffledPatches(nn.Module):
    """Mixes patches of an image in a random order, as an augmentation."""

    def __init__(self, width=12):
        super().__init__()
        self.embed = nn.Conv2d(3, width, kernel_size=4, stride=4)
        self.norm, self.mix = nn.LayerNorm(width), nn.Linear(width, width)

    def forward(self, image):
        patches = self.embed(image).flatten(2).transpose(1, 2)
        hidden = self.norm(patches)
        order = torch.randperm(16)
        shuffled = hidden.transpose(0, 1)[order].transpose(0, 1)
        mixed = torch.sigmoid(self.mix(shuffled)) * hidden
        return mixed.mean(dim=1).softmax(dim=-1)


torch.manual_seed(0)
model = ShuffledPatches().eval()
with torch.no_grad():
    print(torch.compile(model)(torch.randn(2, 3, 16, 16)).shape)
