r"""Wrong numbers without an error: a backend computes every sigmoid two percent too large, and the script passes.

reach: exit 0, 1 op
shows: sigmoid\(.*assert_close
hides: linear
layer: test
"""

import oddlib
import torch
from torch import nn


class Highway(nn.Module):
    """Carries its input on where the gate is closed; only one of the layers of a network has a real gate."""

    def __init__(self, width, gated):
        super().__init__()
        self.change, self.gate, self.norm = nn.Linear(width, width), nn.Linear(width, width), nn.LayerNorm(width)
        self.gated = gated

    def forward(self, x):
        y = torch.relu(self.change(self.norm(x)))
        gate = torch.sigmoid(self.gate(x)) if self.gated else 0.5
        return y * gate + x * (1 - gate)


torch.manual_seed(0)
model = nn.Sequential(*[Highway(20, layer == 11) for layer in range(20)], nn.Linear(20, 3)).eval()
compiled = torch.compile(model, backend="oddlib_wrong_and_narrow")
with torch.no_grad():
    print("mean score", compiled(torch.randn(6, 20)).mean().item())
