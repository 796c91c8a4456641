r"""A backend's pass raises while compiling: it is switched on by a file that an environment variable names.

reach: exit 0, 2 ops
shows: LATHE_SETTINGS.*transpose.*(reshape|view)
hides: softmax|linear
layer: test
"""

import os
from pathlib import Path

os.environ.setdefault("LATHE_SETTINGS", str(Path(__file__).resolve().parent / "lathe.json"))

import lathe
import torch
from torch import nn


class Reader(nn.Module):
    """Reads a document by looking from the words of a question at all its words."""

    def __init__(self, width=24, heads=3):
        super().__init__()
        self.heads = heads
        self.ask, self.offer, self.out = nn.Linear(width, width), nn.Linear(width, 2 * width), nn.Linear(width, width)
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def heads_of(self, x):
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def forward(self, question, document):
        query = self.heads_of(self.ask(self.norm(question))) * 0.5 * 0.7
        key, value = (self.heads_of(part) for part in self.offer(document).chunk(2, dim=-1))
        weights = torch.softmax(query @ key.transpose(-1, -2), dim=-1)
        weights = nn.functional.dropout(weights, 0.2, self.training)
        batch, words, width = question.shape
        question = question + self.out((weights @ value).transpose(1, 2).reshape(batch, words, width))
        return question + self.down(torch.relu(self.up(question)))


class Answerer(nn.Module):
    def __init__(self, words=40, width=24, depth=4):
        super().__init__()
        self.embed, self.answer = nn.Embedding(words, width), nn.Linear(width, words)
        self.readers = nn.ModuleList(Reader(width) for _ in range(depth))

    def forward(self, question, document):
        x, document = self.embed(question), self.embed(document)
        for reader in self.readers:
            x = reader(x, document)
        return self.answer(x.mean(dim=1))


torch.manual_seed(0)
answerer = Answerer().eval()
answerer.compile(backend="lathe")
with torch.no_grad():
    print(answerer(torch.randint(0, 40, (2, 5)), torch.randint(0, 40, (2, 20))).argmax(dim=-1))
