r"""The second call raises: a backend that records kernels refuses two inputs that are parts of one storage.

reach: exit 0, 1 op
shows: randn\(2, 1\).*= \w+\[0\].*= \w+\[1\].*two inputs in one buffer
hides: safetensors|linear
layer: soak
"""

import minigrad
import torch
from torch import nn


class Controller(nn.Module):
    """Steers a cart by what it sees now, and by how that differs from what it saw a step ago."""

    def __init__(self, sensors=10, width=24, commands=3, depth=5):
        super().__init__()
        self.see, self.remember = nn.Linear(sensors, width), nn.Linear(sensors, width)
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(depth))
        self.command = nn.Linear(width, commands)

    def forward(self, seen, seen_before):
        change = (seen - seen_before).square().mean(dim=-1, keepdim=True)
        x = torch.tanh(self.see(seen)) + torch.sigmoid(self.remember(seen_before)) * change
        for layer, norm in zip(self.layers, self.norms, strict=True):
            x = x + torch.relu(layer(norm(x)))
        return self.command(x).softmax(dim=-1)


torch.manual_seed(0)
controller = torch.compile(Controller().eval(), backend="minigrad")
history = torch.zeros(6, 8, 10)  # what eight carts have seen in six steps
with torch.no_grad():
    for moment in range(1, 6):
        history[moment] = 0.8 * history[moment - 1] + torch.randn(8, 10)
        print(moment, controller(history[moment], history[moment - 1]).argmax(dim=-1).tolist())
