r"""Nothing fails: a trained Conv3d of one channel in channels_last_3d has the strides of eager in its own dtype.

reach: exit 1
says: agreed with eager
"""

import torch
from torch import nn

torch.manual_seed(0)
filters = nn.Sequential(nn.Conv3d(1, 6, 3, padding=1), nn.Softplus()).to(memory_format=torch.channels_last_3d)
seismogram = torch.randn(2, 1, 4, 6, 5).to(memory_format=torch.channels_last_3d)
compiled = torch.compile(filters)
for _ in range(2):
    filters.zero_grad()
    energy = compiled(seismogram)
    energy.square().sum().backward()
    print(energy.stride(), filters[0].weight.grad.abs().max().item())
