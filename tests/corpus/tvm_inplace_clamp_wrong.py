r"""Wrong numbers: TVM goes on with the values that a tensor had before it was clamped in place.

reach: exit 0, 1 op
shows: clamp_\(.*relax_dynamo|relax_dynamo.*clamp_\(
hides: linear|softmax
needs: tvm
"""

import torch
from torch import nn
from tvm.relax.frontend.torch import relax_dynamo


class Gate(nn.Module):
    """Adds as much of a change as a gate lets through."""

    def __init__(self, width):
        super().__init__()
        self.norm, self.change, self.gate = nn.LayerNorm(width), nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x):
        return x + nn.functional.gelu(self.change(self.norm(x))) * torch.sigmoid(self.gate(x))


class Harvest(nn.Module):
    """The harvest of some crops from the weather, and by how much the season is better than usual."""

    def __init__(self, weather=12, width=16, crops=4):
        super().__init__()
        self.enter, self.leave = nn.Linear(weather, width), nn.Linear(width, crops)
        self.early, self.late = Gate(width), Gate(width)

    def forward(self, weather):
        x = self.early(torch.tanh(self.enter(weather)))
        better = x - x.mean(dim=-1, keepdim=True)
        better.clamp_(min=0.0)
        x = self.late(x + better)
        return torch.softmax(self.leave(x), dim=-1), better.sum(dim=-1)


torch.manual_seed(0)
harvest = Harvest().eval()
weather = torch.randn(4, 12)
with torch.no_grad():
    compiled = torch.compile(harvest, backend=relax_dynamo())(weather)
for got, expected in zip(compiled, harvest(weather), strict=True):
    torch.testing.assert_close(got, expected.detach(), rtol=1e-3, atol=1e-3)
