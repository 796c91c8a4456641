r"""Lost gradient: views of a result and its detached copy are returned, and no gradient reaches the input.

source: https://github.com/pytorch/pytorch/pull/194479
reach: exit 0, 3 ops
shows: detach
"""

import torch
from torch import nn


class MonitoredSplit(nn.Module):
    """Splits features in two heads and hands the features out once more for a monitor."""

    def __init__(self, width=8):
        super().__init__()
        self.inner, self.norm = nn.Linear(width, width), nn.LayerNorm(width)

    def forward(self, x):
        hidden = torch.tanh(self.inner(self.norm(x)))
        hidden = hidden - hidden.mean(dim=-1, keepdim=True)
        weights = torch.softmax(hidden, dim=-1) * 0.5
        mixed = torch.relu(hidden) + weights.square()
        features = torch.sin(mixed).sum(dim=0)
        return features[0:4], features[4:8], features.detach()


def gradient(model, x):
    model.zero_grad()
    first, second, _ = model(x)
    (first.sum() + 2 * second.sum()).backward()
    return model.inner.weight.grad


torch.manual_seed(0)
model = MonitoredSplit()
x = torch.randn(3, 8)
print("eager", gradient(model, x)[0], "compiled", gradient(torch.compile(model), x))
