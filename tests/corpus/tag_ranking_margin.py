"""Wrong numbers under AOTAutograd: multilabel_margin_loss counts the places behind the -1 that ends a target.

source: https://github.com/pytorch/pytorch/issues/185464
reach: exit 0, 1 op
shows: multilabel_margin_loss
"""

import torch
import torch.nn.functional as F
from torch import nn


class Tagger(nn.Module):
    """Ranks tags of a text; each row of the target lists its tags, and ends with -1."""

    def __init__(self, tokens=50, width=16, tags=5):
        super().__init__()
        self.embedding = nn.EmbeddingBag(tokens, width, mode="mean")
        self.norm = nn.LayerNorm(width)
        self.body = nn.Sequential(nn.Linear(width, 32), nn.GELU(), nn.Linear(32, tags))

    def forward(self, tokens, tags):
        hidden = self.norm(self.embedding(tokens))
        scores = torch.tanh(self.body(hidden)) * 3
        ranking = F.multilabel_margin_loss(scores, tags)
        spread = scores.std(dim=-1).mean()
        return ranking + 0.01 * (1 - spread).relu()


torch.manual_seed(0)
tagger = Tagger()
tokens = torch.randint(0, 50, (4, 7))
tags = torch.tensor([[0, 1, -1, -1, -1], [2, -1, -1, -1, -1], [4, 3, 1, -1, -1], [1, -1, -1, -1, -1]])
with torch.no_grad():
    print("eager", tagger(tokens, tags), "compiled", torch.compile(tagger, backend="aot_eager")(tokens, tags))
