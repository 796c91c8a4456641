r"""Inductor raises ValueError while it follows bounds: softmax over constants that are not a number.

source: https://github.com/pytorch/pytorch/issues/188225
reach: exit 0, 3 ops
shows: (softmax|amax)\(.*ValueError: The argument 'nan' is not comparable
"""

import torch
from torch import nn


class HyperbolicAttention(nn.Module):
    """Mixes learned attention with a fixed prior over distances; the prior is outside its domain."""

    def __init__(self, width=16):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))

    def forward(self, x):
        hidden = self.norm(x)
        scores = self.query(hidden) @ self.key(hidden).transpose(-1, -2)
        distance = torch.full((x.shape[-2], x.shape[-2]), 0.5)
        prior = torch.softmax(torch.arccosh(distance), dim=-1)
        weights = torch.softmax(scores / 4.0, dim=-1) + torch.nan_to_num(prior)
        weights = weights / weights.sum(dim=-1, keepdim=True)
        return torch.tanh(weights @ self.value(hidden)) + x


torch.manual_seed(0)
attention = HyperbolicAttention().eval()
with torch.no_grad():
    print(torch.compile(attention)(torch.randn(2, 5, 16)).shape)
