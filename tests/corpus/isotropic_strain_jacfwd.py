"""SIGSEGV in the compiled code: the second forward derivative of a trace times the identity.

source: https://github.com/pytorch/pytorch/issues/190856
reach: exit 0, 5 statements
shows: SIGSEGV
"""

import torch
from torch.func import jacfwd


def stress(strain):
    """The stress of an isotropic material with a term of second order."""
    volumetric = torch.trace(strain) * torch.eye(3)
    stretch = torch.tanh(strain) @ torch.exp(strain)
    return volumetric @ strain + stretch * torch.sigmoid(strain).cos()


torch.manual_seed(0)
strain = torch.randn(3, 3) * 0.1
stiffness = torch.compile(jacfwd(jacfwd(stress)))
print(stiffness(strain).shape)
