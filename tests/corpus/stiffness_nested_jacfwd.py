"""Dynamo raises while it traces: a tensor divided by a number under two forward derivatives.

source: https://github.com/pytorch/pytorch/issues/160508
reach: exit 0, 4 statements
shows: jacfwd|jvp|make_dual
"""

import torch
from torch.func import jacfwd


def stress(strain):
    """The stress of an isotropic material with a term of second order."""
    volumetric = torch.trace(strain) * torch.eye(3)
    shear = strain - volumetric / 3
    stretch = torch.tanh(shear) * 0.05 + 0.6 * shear
    return 0.8 * volumetric @ strain + stretch * torch.exp(-strain.square().sum())


torch.manual_seed(0)
strain = torch.randn(3, 3) * 0.1
stiffness = torch.compile(jacfwd(jacfwd(stress)), backend="eager")
print(stiffness(strain).shape)
