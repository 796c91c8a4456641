r"""Each half is profiled before its use, in an interpreter that frees a value that an op reads twice, and raises.

reach: exit 0, 2 ops
shows: make_stage_backend\(.*freed before
layer: soak
"""

import torch
from profiled import make_stage_backend
from torch import nn

body = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))


def energy(x):
    y = body(x)
    return (y * y).sum() + x.sin().mean()


with torch.no_grad():
    torch.compile(energy, backend=make_stage_backend(stage=3))(torch.randn(3, 4))
