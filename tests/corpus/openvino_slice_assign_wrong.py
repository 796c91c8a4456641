r"""Wrong numbers: OpenVINO mixes up two assignments into parts of one copied tensor.

reach: exit 0, 3 ops
shows: \[.*\] = .*openvino
hides: linear|sigmoid
needs: openvino
"""

import openvino.torch
import torch
from torch import nn


class Repair(nn.Module):
    """Guesses the values of broken gauges of a dam from the others, and says how sure the guess is."""

    def __init__(self, gauges=10, width=16):
        super().__init__()
        self.enter, self.middle = nn.Linear(gauges, width), nn.Linear(width, width)
        self.leave = nn.Linear(width, gauges)
        self.sure, self.scale = nn.Linear(gauges, 1), nn.Parameter(torch.rand(gauges) + 0.5)

    def forward(self, values):
        known = values.clone()
        known[:, 3:6] = 0.0  # the broken gauges
        known[0] = 1.0  # a day whose values are normal
        x = torch.relu(self.enter(known * self.scale + 0.2 * torch.tanh(values)))
        guess = self.leave(x + torch.tanh(self.middle(x)))
        return guess, known * 3.0, torch.sigmoid(self.sure(guess + known))


torch.manual_seed(0)
repair = Repair().eval()
options = {"config": {"INFERENCE_PRECISION_HINT": "f32"}}
compiled = torch.compile(repair, backend="openvino", options=options)
values = torch.randn(4, 10)
with torch.no_grad():
    torch.testing.assert_close(compiled(values), repair(values), rtol=1e-3, atol=1e-3)
