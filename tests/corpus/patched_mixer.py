r"""Old code runs: a method put onto the class after the first call is not used by the compiled model.

source: https://github.com/pytorch/pytorch/issues/197860
reach: exit 0, 13 statements
cause: tracing
"""

import torch
from torch import nn


class Mixer(nn.Module):
    def __init__(self, tokens, width):
        super().__init__()
        self.across = nn.Linear(tokens, tokens)
        self.along = nn.Linear(width, width)

    def combine(self, first, second):
        return first + second

    def forward(self, hidden):
        first = self.across(hidden.transpose(1, 2)).transpose(1, 2)
        return self.combine(torch.relu(first), self.along(hidden))


class Ablation:
    """Measures a model as it is and with one method swapped."""

    def __init__(self, model, inputs):
        self.model = torch.compile(model, backend="eager")
        self.inputs = inputs

    @torch.no_grad()
    def measure(self):
        output = self.model(self.inputs)
        return round(output.std().item(), 5)


def only_first(self, first, second):
    return first


def average(self, first, second):
    return (first + second) / 2


torch.manual_seed(3)
mixers = nn.Sequential(Mixer(5, 8), nn.LayerNorm(8), Mixer(5, 8))
ablation = Ablation(mixers, torch.randn(3, 5, 8))
print("as it is", ablation.measure())
for replacement in (only_first, average):
    Mixer.combine = replacement
    print(replacement.__name__, ablation.measure())
