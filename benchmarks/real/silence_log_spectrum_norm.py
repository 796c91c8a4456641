"""Inductor raises AssertionError while it writes code: the logarithm of zeros under a layer norm.

source: https://github.com/pytorch/pytorch/issues/190417
reach: exit 0, 3 ops
shows: layer_norm.*AssertionError|AssertionError
"""

import torch
import torch.nn.functional as F
from torch import nn


class SpectrumEncoder(nn.Module):
    """Adds an embedding of silence, made from an empty spectrum, to each frame."""

    def __init__(self, bins=8):
        super().__init__()
        self.bins = bins
        self.frames = nn.Sequential(nn.Linear(bins, 32), nn.SiLU(), nn.Linear(32, bins))
        self.out = nn.Linear(bins, 4)

    def forward(self, spectrum):
        frames = self.frames(torch.log1p(spectrum))
        silence = torch.zeros(1, self.bins)
        silence = F.layer_norm(torch.log2(silence), (self.bins,))
        hidden = frames + torch.nan_to_num(silence)
        hidden = hidden * torch.sigmoid(hidden)
        return self.out(hidden).softmax(dim=-1)


torch.manual_seed(0)
encoder = SpectrumEncoder().eval()
with torch.no_grad():
    print(torch.compile(encoder)(torch.rand(5, 8)))
