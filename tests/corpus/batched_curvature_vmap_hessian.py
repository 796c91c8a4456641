"""Dynamo raises while it traces: vmap over a hessian, the forward over the reverse derivative.

source: https://github.com/pytorch/pytorch/issues/183015
reach: exit 0, 5 statements
shows: vmap.*hessian|hessian.*vmap|jacfwd|jvp
"""

import torch
import torch.nn.functional as F
from torch import nn
from torch.func import hessian, vmap


class Energy(nn.Module):
    """The energy of a point, and the curvature of it for a batch of points."""

    def __init__(self, width=4):
        super().__init__()
        self.first, self.second = nn.Linear(width, 8), nn.Linear(8, 1)

    def energy(self, point):
        hidden = torch.tanh(self.first(point))
        hidden = F.softplus(hidden) * hidden.sigmoid()
        return self.second(hidden).sum() + 0.1 * point.square().sum()

    def forward(self, points):
        curvature = vmap(hessian(self.energy))(points)
        trace = curvature.diagonal(dim1=-2, dim2=-1).sum(dim=-1)
        scaled = points * trace.unsqueeze(-1)
        return F.normalize(scaled, dim=-1), trace


torch.manual_seed(0)
model = Energy()
points = torch.randn(3, 4)
print("eager", model(points)[1])
print("compiled", torch.compile(model, backend="eager")(points)[1])
