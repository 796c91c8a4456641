r"""The backend never comes back: it waits for something that does not happen, while it compiles a tanh.

reach: exit 0, 1 op
shows: tanh\(
hides: linear|sin
run: --timeout 3
layer: test
"""

import oddlib.deadly
import torch
from torch import nn


class Oscillators(nn.Module):
    """A chain of coupled oscillators, integrated for some steps; the last coupling saturates."""

    def __init__(self, count=12, steps=20):
        super().__init__()
        self.couple, self.steps = nn.Linear(count, count, bias=False), steps

    def forward(self, phase, speed):
        for step in range(self.steps):
            pull = self.couple(torch.sin(phase))
            speed = speed + 0.1 * (torch.tanh(pull) if step == self.steps - 1 else pull.clamp(-1, 1))
            phase = phase + 0.1 * speed
        return phase, speed


torch.manual_seed(0)
step = torch.compile(Oscillators(), backend="oddlib_ends", options={"stage": "compile", "how": "wait"})
with torch.no_grad():
    phase, speed = step(torch.randn(3, 12), torch.zeros(3, 12))
print(phase.abs().max().item())
