"""AOTAutograd raises while compiling: a window that as_strided makes beyond its input is changed in place.

source: https://github.com/pytorch/pytorch/issues/140171
reach: exit 0, 2 ops
shows: as_strided
"""

import torch
import torch.nn.functional as F
from torch import nn


class SlidingWindow(nn.Module):
    """Writes features into the window of an arena that follows the part it was given."""

    def __init__(self, width=10):
        super().__init__()
        self.norm, self.project = nn.LayerNorm(width), nn.Linear(width, width)
        self.head = nn.Sequential(nn.Linear(width, 16), nn.ReLU(), nn.Linear(16, 3))

    def forward(self, part, x):
        update = torch.tanh(self.project(self.norm(x)))
        window = part.as_strided((10,), (1,), storage_offset=5)
        window.add_(update)
        scores = F.softmax(self.head(F.gelu(update)), dim=-1)
        return scores * torch.sigmoid(update.mean())


torch.manual_seed(0)
arena = torch.arange(20.0)
with torch.no_grad():
    print(torch.compile(SlidingWindow().eval(), backend="aot_eager")(arena[:10], torch.randn(10)))
