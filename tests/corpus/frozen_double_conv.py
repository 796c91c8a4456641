r"""Inductor raises while it freezes: the weight of a convolution in double precision is reordered for oneDNN.

source: https://github.com/pytorch/pytorch/issues/121175
note: another failure than the thread's, found by trial in the same ops
reach: exit 0, 1 op
shows: freezing.*itensor_view_from_dense expects
"""

import torch
import torch._inductor.config
import torch.nn.functional as F
from torch import nn

torch._inductor.config.freezing = True


class SeismicEncoder(nn.Module):
    """Encodes traces in double precision, as the simulation gives them."""

    def __init__(self, width=8):
        super().__init__()
        self.first, self.second = nn.Conv2d(1, width, 3), nn.Conv2d(width, width, 3, stride=2)
        self.norm, self.head = nn.BatchNorm2d(width), nn.Linear(width, 3)

    def forward(self, traces):
        hidden = F.relu(self.norm(self.first(traces)))
        hidden = F.leaky_relu(self.second(hidden), 0.1)
        pooled = F.adaptive_avg_pool2d(hidden, 1).flatten(1)
        return torch.softmax(self.head(pooled), dim=-1).log()


torch.manual_seed(0)
model = SeismicEncoder().double().eval()
with torch.no_grad():
    print(torch.compile(model)(torch.randn(2, 1, 12, 12, dtype=torch.float64)).shape)
