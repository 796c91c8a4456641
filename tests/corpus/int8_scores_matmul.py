"""Wrong dtype: a batched product of int8 tensors comes back as int64.

source: https://github.com/pytorch/pytorch/issues/191308
reach: exit 0, 1 op
shows: (matmul|@|bmm).*assert_close
"""

import torch
from torch import nn


class QuantisedScores(nn.Module):
    """Attention scores on quantised queries and keys, with the maximum of each row beside them."""

    def __init__(self, width=8):
        super().__init__()
        self.query, self.key = nn.Linear(width, 4), nn.Linear(width, 2)
        self.norm = nn.LayerNorm(width)

    def forward(self, x):
        hidden = torch.tanh(self.norm(x))
        query = (self.query(hidden) * 3).round().clamp(-8, 7).to(torch.int8)
        key = (self.key(hidden) * 3).round().clamp(-8, 7).to(torch.int8)
        scores = torch.matmul(query[:, :1, :2], key[:, :2].transpose(1, 2))
        peak = hidden.abs().amax(dim=-1)
        return scores, peak.sigmoid().mean(dim=-1)


torch.manual_seed(0)
model = QuantisedScores().eval()
x = torch.randn(1, 2, 8)
with torch.no_grad():
    print("eager", model(x)[0].dtype, "compiled", torch.compile(model)(x)[0].dtype)
