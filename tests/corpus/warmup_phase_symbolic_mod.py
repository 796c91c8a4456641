r"""Inductor raises AttributeError in a pass over sizes: a dynamic number modulo three, as a float.

source: https://github.com/pytorch/pytorch/issues/197716
reach: exit 0, 3 ops
shows: no attribute 'python_mod'
"""

import torch
import torch.nn.functional as F
from torch import nn


class PhasedBlock(nn.Module):
    """A residual block whose scale follows the phase of the step that the caller hands in."""

    def __init__(self, width=8):
        super().__init__()
        self.up, self.down, self.norm = nn.Linear(width, 2 * width), nn.Linear(2 * width, width), nn.LayerNorm(width)

    def forward(self, x, step):
        hidden = F.gelu(self.up(self.norm(x)))
        scale = float(step % 3)
        hidden = self.down(hidden) * scale
        centred = hidden - hidden.mean(dim=-1, keepdim=True)
        return torch.tanh(centred) + x.clamp(-2, 2)


torch.manual_seed(0)
model = PhasedBlock().eval()
with torch.no_grad():
    print(torch.compile(model, dynamic=True)(torch.randn(4, 8), 5).shape)
