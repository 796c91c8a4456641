"""Dynamo raises InternalTorchDynamoError while it inlines: a function calls itself 200 times.

source: https://github.com/pytorch/pytorch/issues/167789
reach: exit 0, 8 statements
shows: RecursionError
"""

import torch
from torch import nn


class Unrolled(nn.Module):
    """An iteration toward a fixed point, written as a function that calls itself."""

    def __init__(self, width=4, steps=200):
        super().__init__()
        self.steps = steps
        self.weight = nn.Parameter(torch.eye(width) * 0.5)
        self.bias = nn.Parameter(torch.zeros(width))

    def settle(self, x, z, left):
        if left == 0:
            return z
        update = torch.tanh(z @ self.weight + self.bias) + x
        return self.settle(x, 0.9 * z + 0.1 * update, left - 1)

    def forward(self, x):
        scaled = x / x.norm(dim=-1, keepdim=True)
        result = self.settle(scaled, torch.zeros_like(scaled), self.steps)
        return torch.softmax(result, dim=-1)


torch.manual_seed(0)
model = Unrolled().eval()
with torch.no_grad():
    out = torch.compile(model, backend="eager")(torch.randn(3, 4))
print(out.sum(dim=-1))
