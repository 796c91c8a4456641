r"""SIGSEGV while the backend compiles: one activation of a deep network ends the process.

reach: exit 0, 1 op
shows: tanh\(.*SIGSEGV
hides: linear|relu
layer: test
"""

import oddlib.deadly
import torch
from torch import nn


class Residual(nn.Module):
    def __init__(self, width, activation):
        super().__init__()
        self.norm, self.enter, self.leave = nn.LayerNorm(width), nn.Linear(width, width), nn.Linear(width, width)
        self.activation = activation

    def forward(self, x):
        return x + 0.5 * self.leave(self.activation(self.enter(self.norm(x))))


class Critic(nn.Module):
    """The value of a state, by a deep stack of residual layers."""

    def __init__(self, state=9, width=24, depth=30):
        super().__init__()
        self.enter, self.value = nn.Linear(state, width), nn.Linear(width, 1)
        kinds = [nn.Tanh() if layer == 17 else nn.ReLU() for layer in range(depth)]
        self.layers = nn.ModuleList(Residual(width, kind) for kind in kinds)

    def forward(self, state):
        x = self.enter(state)
        for layer in self.layers:
            x = layer(x)
        return self.value(x).squeeze(-1)


torch.manual_seed(0)
critic = torch.compile(Critic().eval(), backend="oddlib_ends", options={"stage": "compile", "how": "SIGSEGV"})
with torch.no_grad():
    print(critic(torch.randn(5, 9)))
