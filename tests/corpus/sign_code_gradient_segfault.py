"""SIGSEGV in the compiled code: the input is a gradient of sgn, a tensor of zeros without memory.

source: https://github.com/pytorch/pytorch/issues/197067
reach: exit 0, 2 ops
shows: SIGSEGV
"""

import torch
import torch.nn.functional as F
from torch import nn


class SaliencyHead(nn.Module):
    """Weighs features by the gradient of their binary code."""

    def __init__(self, width=8):
        super().__init__()
        self.score, self.norm = nn.Linear(width, width), nn.LayerNorm(width)

    def forward(self, features, gradient):
        hidden = F.gelu(self.score(self.norm(features)))
        peak = gradient[-1] + 10
        gate = torch.sigmoid(hidden.mean(dim=0)) * peak
        mixed = hidden * gate
        return F.normalize(mixed, dim=-1).abs().sum(dim=-1)


torch.manual_seed(0)
features = torch.randn(4, 8, requires_grad=True)
(gradient,) = torch.autograd.grad(torch.sgn(features).sum(), features)
with torch.no_grad():
    print(torch.compile(SaliencyHead().eval())(features.detach(), gradient))
