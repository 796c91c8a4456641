r"""Dynamo raises IndexError where eager passes: a dimension is indexed by a number that is read from a tensor.

reach: exit 0, 3 statements
shows: \.item\(\).*IndexError
hides: [Cc]onv|[Ee]mbedding
layer: soak
"""

import torch
from torch import nn

torch._dynamo.config.capture_scalar_outputs = True


class Smooth(nn.Module):
    """Mixes each word with its neighbours."""

    def __init__(self, width):
        super().__init__()
        self.near, self.norm = nn.Conv1d(width, width, 3, padding=1, groups=width), nn.LayerNorm(width)
        self.change = nn.Linear(width, width)

    def forward(self, x):
        x = x + self.near(x.mT).mT
        return x + nn.functional.gelu(self.change(self.norm(x)))


class Mood(nn.Module):
    """The mood of some messages, read from the last word that all of them have."""

    def __init__(self, words=40, width=16, depth=3):
        super().__init__()
        self.embed, self.mood = nn.Embedding(words, width), nn.Linear(width, 4)
        self.layers = nn.Sequential(*[Smooth(width) for _ in range(depth)])

    def forward(self, words, lengths):
        x = self.layers(self.embed(words))
        common = lengths.amin().item() - 1
        return self.mood(torch.tanh(x[:, common])).softmax(dim=-1)


torch.manual_seed(0)
mood = torch.compile(Mood().eval(), backend="eager")
with torch.no_grad():
    print(mood(torch.randint(0, 40, (3, 15)), torch.tensor([12, 9, 14])))
