r"""Wrong numbers: the minimum of sixteen and more bytes is zero, though every byte is above it.

source: https://github.com/pytorch/pytorch/issues/191499
reach: exit 0, 1 op
shows: (amin|min)\(.*assert_close
"""

import torch
import torch.nn.functional as F
from torch import nn


class ExposureStem(nn.Module):
    """Stretches the contrast of a camera frame by its darkest byte before the first convolution."""

    def __init__(self, width=4):
        super().__init__()
        self.stem, self.norm = nn.Conv2d(1, width, 3, padding=1), nn.GroupNorm(2, width)

    def forward(self, frame):
        darkest = frame.amin()
        image = (frame.float() - darkest.float()) / 255.0
        hidden = F.relu(self.norm(self.stem(image)))
        pooled = F.adaptive_avg_pool2d(hidden, 1).flatten(1)
        return torch.log1p(pooled).softmax(dim=-1), darkest


torch.manual_seed(0)
model = ExposureStem().eval()
frame = torch.randint(40, 120, (1, 1, 6, 6), dtype=torch.uint8)
with torch.no_grad():
    print("eager", model(frame)[1], "compiled", torch.compile(model)(frame)[1])
