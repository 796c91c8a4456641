r"""A stale setting: an environment variable read with os.getenv is taken at the first call and not looked at again.

source: https://github.com/pytorch/pytorch/pull/189027
reach: exit 0, 11 statements
cause: tracing
"""

import os

import torch
from torch import nn


class Sampler(nn.Module):
    def __init__(self, words):
        super().__init__()
        self.embed = nn.Embedding(words, 8)
        self.cell = nn.GRUCell(8, 8)
        self.out = nn.Linear(8, words)

    def forward(self, word, state):
        state = self.cell(self.embed(word), state)
        temperature = float(os.getenv("SAMPLER_TEMPERATURE", "1.0"))
        return (self.out(state) / temperature).softmax(dim=-1), state


def generate(sampler, length):
    word, state = torch.zeros(1, dtype=torch.long), torch.zeros(1, 8)
    certainty = 0.0
    for _ in range(length):
        chances, state = sampler(word, state)
        word = chances.argmax(dim=-1)
        certainty += chances.max().item()
    return certainty / length


def main():
    torch.manual_seed(30)
    sampler = Sampler(13).eval()
    sampler.compile(backend="eager")
    with torch.no_grad():
        for temperature in ("1.0", "0.25", "4.0"):
            os.environ["SAMPLER_TEMPERATURE"] = temperature
            print("temperature", temperature, "certainty", round(generate(sampler, 6), 4))


if __name__ == "__main__":
    main()
