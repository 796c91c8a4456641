"""Wrong numbers at the second call: its inputs overlap, and the code for separate inputs is used again.

source: https://github.com/pytorch/pytorch/issues/139789
reach: exit 0, 2 ops
shows: as_strided|expand|compare|compiled
"""

import torch
import torch.nn.functional as F
from torch import nn


class Blend(nn.Module):
    """Doubles one window in place, and adds the other."""

    def __init__(self, width=4):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(width, 16), nn.ReLU(), nn.LayerNorm(16), nn.Linear(16, width))

    def forward(self, left, right):
        left.mul_(2)
        mixed = left + right
        features = torch.tanh(self.body(mixed))
        gate = torch.sigmoid(features.mean())
        return mixed * gate + F.softmax(features, dim=-1)


torch.manual_seed(0)
model = Blend().eval()
compiled = torch.compile(model, backend="aot_eager")
with torch.no_grad():
    compiled(torch.ones(4), torch.ones(4))
    windows, same = torch.ones(8), torch.ones(8)
    print("compiled", compiled(windows[:4], windows[2:6]), "eager", model(same[:4], same[2:6]))
