r"""Wrong shape: Dynamo hands a tuple to torch.Tensor, which makes a tensor of its numbers, not one of that size.

source: https://github.com/pytorch/pytorch/issues/196467
reach: exit 0, 8 statements
shows: torch\.Tensor\(
"""

import torch
import torch.nn.functional as F
from torch import nn


class NoiseInjector(nn.Module):
    """Adds noise from a buffer that is made in the size of the features, as older code does."""

    def __init__(self, width=10):
        super().__init__()
        self.body, self.norm, self.out = nn.Linear(width, 4), nn.LayerNorm(4), nn.Linear(4, 4)

    def forward(self, x):
        hidden = F.gelu(self.norm(self.body(x)))
        buffer = torch.Tensor(hidden.size())
        buffer = torch.zeros_like(buffer) + 0.1
        gate = torch.sigmoid(self.out(hidden))
        return (hidden * gate).softmax(dim=-1), buffer


torch.manual_seed(0)
model = NoiseInjector().eval()
x = torch.randn(3, 10)
expected, compiled = model(x), torch.compile(model, backend="eager")(x)
print("eager", tuple(expected[1].shape), "compiled", tuple(compiled[1].shape))
assert compiled[1].shape == expected[1].shape
