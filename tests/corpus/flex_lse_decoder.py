r"""Inductor raises NotImplementedError: flex_attention on a CPU is asked for the log of the sum of its weights.

reach: exit 0, 2 ops
shows: flex_attention.*NotImplementedError
hides: linear|layer_norm
"""

import torch
from torch import nn
from torch.nn.attention.flex_attention import flex_attention


def near_first(score, batch, head, query, key):
    """Scores fall with the distance of a key from its query."""
    return score - 0.1 * (query - key).abs()


class ChunkReader(nn.Module):
    """Attends to one chunk of a text, and returns what is needed to join it with the others."""

    def __init__(self, words=50, width=32, heads=2):
        super().__init__()
        self.heads, self.embed, self.norm = heads, nn.Embedding(words, width), nn.LayerNorm(width)
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.out = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width))

    def forward(self, words):
        x = self.norm(self.embed(words))
        parts = (part(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in (self.query, self.key, self.value))
        mixed, weight = flex_attention(*parts, score_mod=near_first, return_lse=True)
        mixed = mixed * torch.sigmoid(weight).unsqueeze(-1)
        return x + self.out(mixed.transpose(1, 2).flatten(2))


torch.manual_seed(0)
reader = ChunkReader().eval()
with torch.no_grad():
    print(torch.compile(reader)(torch.randint(0, 50, (2, 64))).norm())
