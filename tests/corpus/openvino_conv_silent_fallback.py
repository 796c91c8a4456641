r"""OpenVINO fails at a convolution, catches its own error and lets torch do the work; only its DEBUG log says so.

reach: exit 0, 1 op
shows: conv2d\(.*openvino
hides: batch_norm|softmax
run: --fallbacks
needs: openvino
"""

import openvino.torch
import torch
from torch import nn


class Pair(nn.Module):
    """Two convolutions beside a connection that leaves them out."""

    def __init__(self, channels):
        super().__init__()
        self.first, self.second = (nn.Conv2d(channels, channels, 3, padding=1) for _ in range(2))
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, x):
        return torch.relu(x + self.norm(self.second(torch.relu(self.first(x)))))


class Soil(nn.Module):
    """The kind of soil on a picture of five bands of light."""

    def __init__(self, bands=5, channels=6, kinds=4):
        super().__init__()
        self.embed, self.kind = nn.Linear(bands, channels), nn.Linear(channels, kinds)
        self.pairs = nn.Sequential(Pair(channels), Pair(channels))

    def forward(self, picture):
        picture = (picture - picture.mean()) / (picture.std() + 1e-4)
        x = torch.tanh(self.embed(picture.permute(0, 2, 3, 1))).permute(0, 3, 1, 2)
        return torch.softmax(self.kind(self.pairs(x).mean(dim=(2, 3))), dim=-1)


torch.manual_seed(0)
soil = Soil().eval()
picture = torch.rand(2, 5, 8, 8)
with torch.no_grad():
    compiled = torch.compile(soil, backend="openvino")(picture)
    torch.testing.assert_close(compiled, soil(picture), rtol=5e-2, atol=5e-2)
