"""AOTAutograd raises while compiling: two inputs are views of one arena with different dtypes, and one is changed.

source: https://github.com/pytorch/pytorch/issues/194747
reach: exit 0, 1 op
shows: view\(|float16|bfloat16|int
"""

import torch
import torch.nn.functional as F
from torch import nn


class CachedBlock(nn.Module):
    """A decoder block that keeps its keys and a count of the used slots in one buffer, as serving engines do."""

    def __init__(self, width=32):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.query, self.key, self.out = nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x, keys, used):
        hidden = self.norm(x)
        query = F.gelu(self.query(hidden))
        keys.copy_(self.key(hidden))
        used.add_(1)
        weights = torch.softmax(query @ keys.transpose(0, 1) / 32**0.5, dim=-1)
        mixed = weights @ keys
        return x + torch.tanh(self.out(mixed)) / used.clamp(min=1).float().mean()


torch.manual_seed(0)
arena = torch.zeros(8 * 32 + 8)
keys = arena[: 8 * 32].view(8, 32)
used = arena.view(torch.int32)[8 * 32 :]
block = CachedBlock().eval()
with torch.no_grad():
    print(torch.compile(block)(torch.randn(8, 32), keys, used).shape)
