r"""Changes of the caller's tensors are lost: OpenVINO does not write back what a model changes in place.

reach: exit 0, 1 op
shows: (mul_|add_|copy_)\(.*openvino
hides: linear|softmax
needs: openvino
"""

import openvino.torch
import torch
from torch import nn


class Meter(nn.Module):
    """Rates the vibration of a motor against its running mean and spread, which the caller keeps."""

    def __init__(self, sensors=10, width=20):
        super().__init__()
        self.enter, self.middle, self.rate = nn.Linear(sensors, width), nn.Linear(width, width), nn.Linear(width, 3)

    def forward(self, x, mean, spread):
        centre = x.mean(dim=0)
        mean.mul_(0.8).add_(0.2 * centre)
        spread.mul_(0.8).add_(0.2 * (x - centre).square().mean(dim=0))
        x = (x - mean) * torch.rsqrt(spread + 1e-4)
        x = torch.tanh(self.enter(x))
        x = x + torch.sigmoid(self.middle(x))
        return torch.softmax(self.rate(x), dim=-1)


torch.manual_seed(0)
meter = Meter().eval()
options = {"config": {"INFERENCE_PRECISION_HINT": "f32"}}
compiled = torch.compile(meter, backend="openvino", options=options)
kept, expected = (torch.zeros(10), torch.ones(10)), (torch.zeros(10), torch.ones(10))
with torch.no_grad():
    for _ in range(2):
        x = 1.5 + torch.randn(6, 10)
        torch.testing.assert_close(compiled(x, *kept), meter(x, *expected), rtol=1e-3, atol=1e-3)
torch.testing.assert_close(kept, expected, rtol=1e-3, atol=1e-3)
