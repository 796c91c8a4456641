r"""A backend has two errors of nearly the same text: the whole graph shows one, a tanh alone the other.

reach: exit 0, 2 ops
shows: (layer_norm.*tanh|tanh.*layer_norm).*fusion\.cc:120
hides: missing producer
says: others/
layer: test
"""

import oddlib
import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    """A block of a language model, whose feed-forward part may have an unusual activation."""

    def __init__(self, width, heads, activation):
        super().__init__()
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.wide, self.narrow, self.activation = nn.Linear(width, 3 * width), nn.Linear(3 * width, width), activation

    def forward(self, x):
        y = self.before(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.narrow(self.activation(self.wide(self.after(x))))


torch.manual_seed(0)
blocks = [Block(16, 2, torch.tanh if i == 6 else F.gelu) for i in range(12)]
model = nn.Sequential(nn.Embedding(40, 16), *blocks, nn.LayerNorm(16), nn.Linear(16, 40))
compiled = torch.compile(model, backend="oddlib_two_errors")
print(compiled(torch.randint(0, 40, (2, 9))).shape)
