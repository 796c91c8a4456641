r"""Wrong numbers: OpenVINO computes other quantiles than torch.

reach: exit 0, 1 op
shows: quantile\(.*openvino
hides: linear|tanh
needs: openvino
"""

import openvino.torch
import torch
from torch import nn


class Outliers(nn.Module):
    """How unusual the blood values of a patient are, scaled by the middle half of them."""

    def __init__(self, values=10, width=16):
        super().__init__()
        self.enter, self.middle, self.leave = nn.Linear(values, width), nn.Linear(width, width), nn.Linear(width, 1)

    def forward(self, values):
        bent = torch.tanh(values - values.mean(dim=1, keepdim=True)) * 3
        low = torch.quantile(bent, 0.25, dim=1, keepdim=True)
        high = torch.quantile(bent, 0.75, dim=1, keepdim=True)
        scaled = ((bent - low) / (high - low + 0.01)).clamp(-4, 4)
        x = torch.relu(self.enter(scaled))
        x = x + torch.relu(self.middle(x))
        return scaled, torch.sigmoid(self.leave(x)) * torch.exp(-bent.square().mean(dim=1, keepdim=True))


torch.manual_seed(0)
outliers = Outliers().eval()
options = {"config": {"INFERENCE_PRECISION_HINT": "f32"}}
compiled = torch.compile(outliers, backend="openvino", options=options)
values = 2 * torch.randn(5, 10)
with torch.no_grad():
    torch.testing.assert_close(compiled(values), outliers(values), rtol=1e-3, atol=1e-3)
