r"""The C++ that inductor writes does not compile: torch's own switch puts an error into its code for relu.

reach: exit 0, 1 op
shows: inject_relu_bug_TESTING_ONLY.*relu\(
hides: linear|layer_norm
"""

import torch
import torch._inductor.config
from torch import nn

torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = "compile_error"


class Gated(nn.Module):
    """A feed-forward layer whose values are multiplied by gates."""

    def __init__(self, width, activation):
        super().__init__()
        self.norm, self.both, self.out = nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.Linear(width, width)
        self.activation = activation

    def forward(self, x):
        values, gates = self.both(self.norm(x)).chunk(2, dim=-1)
        return x + self.out(values * self.activation(gates))


torch.manual_seed(0)
layers = [Gated(24, nn.ReLU() if number == 7 else nn.SiLU()) for number in range(12)]
with torch.no_grad():
    print(torch.compile(nn.Sequential(*layers).eval())(torch.randn(3, 24)).norm())
