r"""The backend has no room for the third shape that it compiles.

reach: exit 0, 1 op
shows: (compiled\(.*){3}no room for another entry
hides: (compiled\(.*){5}
layer: soak
"""

import cache
import torch

net = torch.compile(torch.nn.Sequential(torch.nn.LayerNorm(8), torch.nn.SiLU()), backend="cache", dynamic=False)
for n in range(2, 7):
    net(torch.ones(n, 8))
