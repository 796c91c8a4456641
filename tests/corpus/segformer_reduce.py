r"""Inductor raises ValueRangeError with dynamic shapes: it lowers a convolution of tokens put back into an image.

reach: exit 0, 7 ops
shows: dynamic=True.*ValueRangeError
hides: layer_norm|scaled_dot_product
"""

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F


@dataclass(frozen=True)
class Scale:
    """One resolution of the encoder: how large its patches are, and by how much attention shrinks the keys."""

    width: int
    patch: int
    stride: int
    shrink: int


class ShrunkAttention(nn.Module):
    """Attention whose keys are those of a smaller image."""

    def __init__(self, scale):
        super().__init__()
        width = scale.width
        self.query, self.keys, self.out = nn.Linear(width, width), nn.Linear(width, 2 * width), nn.Linear(width, width)
        self.shrink, self.norm = nn.Conv2d(width, width, scale.shrink, scale.shrink), nn.LayerNorm(width)

    def forward(self, tokens, height, wide):
        batch, width = len(tokens), tokens.shape[-1]
        image = tokens.permute(0, 2, 1).reshape(batch, width, height, wide)
        small = self.norm(self.shrink(image).reshape(batch, width, -1).permute(0, 2, 1))
        key, value = self.keys(small).chunk(2, dim=-1)
        return self.out(F.scaled_dot_product_attention(self.query(tokens), key, value))


class Level(nn.Module):
    def __init__(self, channels, scale):
        super().__init__()
        self.cut = nn.Conv2d(channels, scale.width, scale.patch, scale.stride, scale.patch // 2)
        self.attend, self.norm = ShrunkAttention(scale), nn.LayerNorm(scale.width)
        self.up, self.down = nn.Linear(scale.width, 2 * scale.width), nn.Linear(2 * scale.width, scale.width)

    def forward(self, image):
        image = self.cut(image)
        height, wide = image.shape[-2:]
        tokens = image.flatten(2).transpose(1, 2)
        tokens = self.norm(tokens + self.attend(tokens, height, wide))
        tokens = tokens + self.down(F.gelu(self.up(tokens)))
        return tokens.transpose(1, 2).reshape(image.shape[0], -1, height, wide)


class Fields(nn.Module):
    """Says for each place of an aerial view what grows there; a view may have any size."""

    def __init__(self, crops=4, scales=(Scale(12, 7, 4, 2), Scale(20, 3, 2, 2))):
        super().__init__()
        self.levels = nn.ModuleList(map(Level, (3, 12), scales))
        self.heads = nn.ModuleList(nn.Conv2d(scale.width, 8, 1) for scale in scales)
        self.crops = nn.Conv2d(16, crops, 1)

    def forward(self, view):
        maps = []
        for level, head in zip(self.levels, self.heads, strict=True):
            view = level(view)
            maps.append(head(view))
        coarse = F.interpolate(maps[1], size=maps[0].shape[-2:], mode="nearest")
        return self.crops(torch.cat([maps[0], coarse], dim=1))


@torch.no_grad()
def main():
    torch.manual_seed(0)
    fields = torch.compile(Fields().eval(), dynamic=True)
    print(fields(torch.rand(2, 3, 64, 64)).argmax(dim=1).float().mean())


if __name__ == "__main__":
    main()
