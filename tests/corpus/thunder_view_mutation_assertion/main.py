r"""AssertionError without a text: thunder compiles, under no_grad, what changes a view of a result in place.

reach: exit 0, 3 ops
shows: no_grad.*mul_\(
hides: layer_norm|tanh
needs: thunder
"""

import thunder_compat
import torch
from thunder.dynamo import ThunderCompiler
from torch import nn


class Tide(nn.Module):
    """The height of the tide in the next hours; the first hours of a series are trusted less."""

    def __init__(self, gauges=4, width=10):
        super().__init__()
        self.enter, self.middle, self.leave = nn.Linear(gauges, width), nn.Linear(width, width), nn.Linear(width, 2)
        self.norm = nn.LayerNorm(width)

    def forward(self, series):
        x = torch.tanh(self.enter(series - series.mean(dim=1, keepdim=True)))
        x = x + torch.relu(self.middle(self.norm(x)))
        height = self.leave(x) * torch.exp(-x.abs().mean(dim=-1, keepdim=True))
        height[:, :3].mul_(0.2)
        return height, torch.sigmoid(x.mean(dim=1))


torch.manual_seed(0)
tide = Tide().eval()
series = torch.randn(2, 8, 4)
with torch.no_grad():
    compiled = torch.compile(tide, backend=ThunderCompiler())(series)
    torch.testing.assert_close(compiled, tide(series), rtol=1e-3, atol=1e-3)
