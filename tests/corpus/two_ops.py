r"""A backend refuses graphs that have both a softmax and a tanh, which stand a hundred ops apart.

reach: exit 0, 2 ops
shows: (softmax.*tanh|tanh.*softmax).*no lowering for softmax with tanh
hides: layer_norm|linear
layer: soak
"""

import oddlib
import torch
from torch import nn


class Mixer(nn.Module):
    """One layer: a channel network with a residual connection."""

    def __init__(self, width):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(self.norm(x))))


class Ranker(nn.Module):
    """Pools the words of a query by their weights, and ranks it with a score between -1 and 1."""

    def __init__(self, words=60, width=24, depth=24):
        super().__init__()
        self.embed, self.weigh = nn.Embedding(words, width), nn.Linear(width, 1)
        self.mixers = nn.Sequential(*[Mixer(width) for _ in range(depth)])
        self.score = nn.Linear(width, 1)

    def forward(self, query):
        words = self.embed(query)
        pooled = (torch.softmax(self.weigh(words), dim=1) * words).sum(dim=1)
        return torch.tanh(self.score(self.mixers(pooled)))


torch.manual_seed(0)
ranker = torch.compile(Ranker().eval(), backend="oddlib_pair")
with torch.no_grad():
    print(ranker(torch.randint(0, 60, (3, 7))).flatten().tolist())
