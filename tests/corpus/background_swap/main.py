r"""Wrong numbers from some call on: a thread compiles while calls run in eager, and its code forgets elu's alpha.

reach: exit 0, 1 op
shows: elu\(
hides: linear|layer_norm
"""

import threading

import farcode
import torch
from torch import nn


class Vibration(nn.Module):
    """How far the vibration of a machine is from what it is when the machine is well."""

    def __init__(self, sensors=6, width=18, depth=9):
        super().__init__()
        self.enter, self.leave = nn.Linear(sensors, width), nn.Linear(width, sensors)
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(depth))

    def forward(self, window):
        x = nn.functional.elu(self.enter(window), 0.25)
        for layer, norm in zip(self.layers, self.norms, strict=True):
            x = x + torch.relu(layer(norm(x)))
        return (self.leave(x) - window).square().mean(dim=-1)


torch.manual_seed(0)
watch = torch.compile(Vibration().eval(), backend="farcode")
window = torch.randn(4, 6)
pause = threading.Event()
with torch.no_grad():
    for second in range(30):
        score = watch(window)
        if second % 10 == 9:
            print(second, [round(value, 4) for value in score.tolist()])
        pause.wait(0.015)
