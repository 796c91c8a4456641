"""Eager raises, the compiled code returns a number: smooth_l1_loss with a beta below zero.

source: https://github.com/pytorch/pytorch/issues/194501
reach: exit 0, 1 op
shows: smooth_l1_loss.*error_of|error_of.*smooth_l1_loss
"""

import torch
import torch.nn.functional as F
from torch import nn


class BoxHead(nn.Module):
    """Box regression whose beta shrinks with the step, one step too far."""

    def __init__(self, width=16):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(width, 32), nn.ReLU(), nn.LayerNorm(32))
        self.box, self.score = nn.Linear(32, 4), nn.Linear(32, 3)

    def forward(self, x, boxes, labels, step: int):
        hidden = self.trunk(x)
        predicted = torch.sigmoid(self.box(hidden))
        centre, size = predicted[:, :2], predicted[:, 2:].clamp(min=0.01)
        corners = torch.cat([centre - size / 2, centre + size / 2], dim=-1)
        regression = F.smooth_l1_loss(corners, boxes, beta=1.0 - step * 0.5)
        return regression + F.cross_entropy(self.score(hidden), labels)


torch.manual_seed(0)
head = BoxHead()
with torch.no_grad():
    print(torch.compile(head)(torch.randn(6, 16), torch.rand(6, 4), torch.randint(0, 3, (6,)), 3))
