r"""Eager raises, the compiled code adds to the last row: index_add with an index below zero.

source: https://github.com/pytorch/pytorch/issues/185885
reach: exit 0, 1 op
shows: index_add
"""

import torch
import torch.nn.functional as F
from torch import nn


class MessagePassing(nn.Module):
    """One round of messages along the edges of a graph; -1 stands for an edge without a target."""

    def __init__(self, width=6):
        super().__init__()
        self.message, self.update, self.norm = nn.Linear(width, width), nn.Linear(width, width), nn.LayerNorm(width)

    def forward(self, nodes, sources, targets):
        hidden = self.norm(nodes)
        messages = F.silu(self.message(hidden[sources]))
        inbox = torch.zeros_like(hidden).index_add(0, targets, messages)
        updated = torch.tanh(self.update(hidden + inbox))
        return F.normalize(updated, dim=-1) + nodes


torch.manual_seed(0)
model = MessagePassing().eval()
sources, targets = torch.tensor([0, 1, 2, 3]), torch.tensor([1, 2, 3, -1])
with torch.no_grad():
    print(torch.compile(model)(torch.randn(5, 6), sources, targets))
