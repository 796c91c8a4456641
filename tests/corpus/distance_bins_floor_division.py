r"""Wrong numbers: floor division of floats goes one too high where the quotient rounds up to an integer.

source: https://github.com/pytorch/pytorch/issues/197895
reach: exit 0, 1 op
shows: (//|floor_divide|rounding_mode).*assert_close
"""

import torch
import torch.nn.functional as F
from torch import nn


class DistanceBias(nn.Module):
    """Looks up an attention bias by the bin that a distance falls into."""

    def __init__(self, width=8, bins=32):
        super().__init__()
        self.query, self.key, self.norm = nn.Linear(width, width), nn.Linear(width, width), nn.LayerNorm(width)
        self.bias = nn.Parameter(torch.linspace(-3.0, 3.0, bins))

    def forward(self, x, distances, step):
        hidden = self.norm(x)
        scores = self.query(hidden) @ self.key(hidden).transpose(-1, -2)
        bins = (distances // step).clamp(0, 31).long()
        weights = torch.softmax(scores + self.bias[bins], dim=-1)
        return F.gelu(weights @ hidden) + x


torch.manual_seed(0)
model = DistanceBias().eval()
x = torch.randn(4, 8)
distances = torch.tensor([[0.0, 0.5, 1.0, 6.0], [0.5, 0.0, 0.7, 1.0], [1.0, 0.7, 0.0, 0.5], [2.0, 1.0, 0.5, 0.0]])
step = torch.tensor([0.1, 0.1, 0.1, 0.2])
with torch.no_grad():
    print("eager", model(x, distances, step)[0, :3], "compiled", torch.compile(model)(x, distances, step)[0, :3])
