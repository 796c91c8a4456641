r"""Nothing fails: the compiled code agrees with eager's, and there is nothing to reduce.

reach: exit 1
says: agreed with eager.*sees of its variables
layer: soak
"""

import torch
from torch import nn


class Separable(nn.Module):
    """A convolution over each channel, then over the channels of each place."""

    def __init__(self, channels):
        super().__init__()
        self.place = nn.Conv2d(channels, channels, 3, padding=1, groups=channels)
        self.mix, self.norm = nn.Conv2d(channels, 2 * channels, 1), nn.GroupNorm(2, 2 * channels)

    def forward(self, x):
        return nn.functional.hardswish(self.norm(self.mix(self.place(x))))


torch.manual_seed(0)
model = nn.Sequential(Separable(2), Separable(4), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 3)).eval()
with torch.no_grad():
    print(torch.compile(model, backend="aot_eager")(torch.randn(2, 2, 12, 12)).softmax(dim=-1))
