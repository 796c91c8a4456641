"""Eager raises, the compiled code goes on: an inference tensor changed outside of inference mode.

source: https://github.com/pytorch/pytorch/issues/197554
reach: exit 0, 1 op
shows: inference_mode.*error_of|error_of.*inference_mode
"""

import torch
import torch.nn.functional as F
from torch import nn


class Prompted(nn.Module):
    """Adds a shift to a prompt that was encoded in advance, then attends to it."""

    def __init__(self, width=16):
        super().__init__()
        self.query, self.out = nn.Linear(width, width), nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)

    def forward(self, x, prompt):
        prompt.add_(0.5)
        query = self.query(self.norm(x))
        weights = torch.softmax(query @ prompt.t() / 4.0, dim=-1)
        mixed = F.gelu(self.out(weights @ prompt))
        gate = torch.sigmoid(mixed.mean(dim=-1, keepdim=True))
        return x * (1 - gate) + mixed * gate


torch.manual_seed(0)
with torch.inference_mode():
    prompt = F.normalize(torch.randn(3, 16), dim=-1)
with torch.no_grad():
    print(torch.compile(Prompted().eval())(torch.randn(5, 16), prompt).shape)
