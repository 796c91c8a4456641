r"""AssertionError on a GPU: a transposed convolution gives other strides than inductor expects.

source: https://github.com/pytorch/pytorch/issues/184026
reach: exit 0, 1 op
shows: conv_transpose2d\(
hides: group_norm|linear
needs: cuda
"""

import torch
from torch import nn


class Double(nn.Module):
    """Doubles the size of an image."""

    def __init__(self, channels):
        super().__init__()
        self.grow = nn.ConvTranspose2d(channels, channels, 3, stride=2, padding=1, output_padding=1, bias=False)
        self.norm = nn.GroupNorm(2, channels)

    def forward(self, x):
        return nn.functional.silu(self.norm(self.grow(x)))


class Painter(nn.Module):
    """Paints a picture from a code."""

    def __init__(self, code=20, channels=8, doublings=3):
        super().__init__()
        self.begin, self.colour = nn.Linear(code, 9 * channels), nn.Conv2d(channels, 3, 1)
        self.grow = nn.Sequential(*[Double(channels) for _ in range(doublings)])

    def forward(self, code):
        return torch.sigmoid(self.colour(self.grow(self.begin(code).unflatten(1, (-1, 3, 3)))))


torch.manual_seed(0)
painter = Painter().cuda().eval()
codes = torch.randn(2, 20, device="cuda")
with torch.no_grad():
    torch.testing.assert_close(torch.compile(painter)(codes), painter(codes), rtol=1e-3, atol=1e-3)
