"""Inductor raises IndexError in a joint pass: log_softmax of a product without dimensions.

source: https://github.com/pytorch/pytorch/issues/190418
reach: exit 0, 2 ops
shows: log_softmax.*IndexError
"""

import torch
import torch.nn.functional as F
from torch import nn


class Temperature(nn.Module):
    """A contrastive loss whose temperature is normalised as the logits are, also where it is one number."""

    def __init__(self, width=16):
        super().__init__()
        self.left, self.right = nn.Linear(width, 8), nn.Linear(width, 8)
        self.scale, self.gain = nn.Parameter(torch.tensor(2.0)), nn.Parameter(torch.tensor(0.5))

    def forward(self, a, b):
        left = F.normalize(F.relu(self.left(a)), dim=-1)
        right = F.normalize(F.relu(self.right(b)), dim=-1)
        temperature = self.scale * self.gain
        prior = F.log_softmax(temperature, dim=-1)
        logits = left @ right.t() * temperature.exp() + prior
        target = torch.arange(len(a))
        return (F.cross_entropy(logits, target) + F.cross_entropy(logits.t(), target)) / 2


torch.manual_seed(0)
with torch.no_grad():
    print(torch.compile(Temperature())(torch.randn(6, 16), torch.randn(6, 16)))
