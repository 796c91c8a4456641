r"""Wrong values: a parameter refilled through .data shares its functional copy with the buffer that is counted up.

source: https://github.com/pytorch/pytorch/issues/197738
reach: exit 0, 22 statements
cause: aliasing/mutation
layer: corpus
"""

import torch
from torch import nn


class CountedScale(nn.Module):
    """Scales by a weight that is put back to a fixed value at each pass, and counts the passes per channel."""

    def __init__(self, channels, value):
        super().__init__()
        self.value = value
        self.weight = nn.Parameter(torch.ones(channels))
        self.register_buffer("passes", torch.zeros(channels))

    def forward(self, hidden):
        self.weight.data.fill_(self.value)
        self.passes += 1
        return hidden * self.weight + self.passes


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(11, 6)
        self.scale = CountedScale(6, value=3.0)
        self.out = nn.Linear(6, 4)

    def forward(self, tokens):
        hidden = self.embed(tokens).mean(dim=1)
        return self.out(self.scale(hidden))


def batches(count):
    for _ in range(count):
        yield torch.randint(0, 11, (3, 5))


def main():
    torch.manual_seed(1)
    tagger = Tagger()
    step = torch.compile(tagger, backend="aot_eager")
    for tokens in batches(4):
        tags = step(tokens).argmax(dim=-1)
        print("tags", tags.tolist())
    print("passes", tagger.scale.passes.tolist())
    print("weight", tagger.scale.weight.tolist())


if __name__ == "__main__":
    main()
