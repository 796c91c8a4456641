r"""Inductor raises DataDependentOutputException while it lowers the higher-order op scan.

source: https://github.com/pytorch/pytorch/issues/183017
note: another failure than the thread's, found by trial in the same ops
reach: exit 0, 1 op
shows: scan\(.*DataDependentOutputException
"""

import torch
import torch.nn.functional as F
from torch import nn
from torch._higher_order_ops.scan import scan


class LeakyState(nn.Module):
    """A recurrent layer: a state that decays and takes up one step of the input at a time."""

    def __init__(self, width=8):
        super().__init__()
        self.inner, self.gate, self.norm = nn.Linear(width, width), nn.Linear(width, width), nn.LayerNorm(width)

    def forward(self, x):
        drive = torch.tanh(self.inner(self.norm(x)))
        decay = torch.sigmoid(self.gate(x)).mean(dim=0)

        def step(state, frame):
            state = state * 0.9 + frame
            return state, torch.relu(state) * 2

        last, states = scan(step, torch.zeros_like(decay), drive, dim=0)
        return F.normalize(states * decay, dim=-1) + last


torch.manual_seed(0)
model = LeakyState().eval()
with torch.no_grad():
    print(torch.compile(model)(torch.randn(5, 8)).shape)
