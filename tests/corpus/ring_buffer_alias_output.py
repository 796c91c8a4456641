r"""AOTAutograd raises at run time: the output is a view of an input that shares the storage of a changed input.

source: https://github.com/pytorch/pytorch/issues/198095
reach: exit 0, 2 ops
shows: view|\[|as_strided
"""

import torch
from torch import nn


class RingBuffer(nn.Module):
    """Shifts a window of features, and returns the valid part of it beside a summary."""

    def __init__(self, width=6):
        super().__init__()
        self.mix = nn.Sequential(nn.Linear(width, 16), nn.ReLU(), nn.Linear(16, width))
        self.norm = nn.LayerNorm(width)

    def forward(self, window, valid, update):
        change = torch.tanh(self.mix(self.norm(update)))
        window.add_(change)
        scale = torch.sigmoid(change.mean(dim=0))
        summary = (change * scale).sum(dim=0) / (1 + scale.abs())
        return valid.view(-1), summary.softmax(dim=-1)


torch.manual_seed(0)
window = torch.randn(4, 6)
buffer = RingBuffer().eval()
with torch.no_grad():
    flat, summary = torch.compile(buffer, backend="aot_eager")(window, window[1:], torch.randn(4, 6))
print(flat.shape, summary)
