"""Dynamo raises Unsupported: pairs that the caller zipped are iterated inside the compiled code.

source: https://github.com/pytorch/pytorch/issues/146359
reach: exit 0, 5 statements
shows: tp_iter|zip
"""

import torch
from torch import nn


class Heads(nn.Module):
    """Heads over shared features, each with its own scale."""

    def __init__(self, width=8, classes=(2, 3, 4)):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(width, 16), nn.GELU(), nn.LayerNorm(16))
        self.heads = nn.ModuleList(nn.Linear(16, count) for count in classes)

    def forward(self, x, pairs):
        features = self.body(x)
        results = []
        for number, scale in pairs:
            logits = self.heads[number](features) * scale
            results.append(torch.log_softmax(logits, dim=-1))
        total = sum(result.sum() for result in results)
        return results, total


torch.manual_seed(0)
model = Heads().eval()
compiled = torch.compile(model, backend="eager", fullgraph=True)
numbers, scales = [0, 2], [1.0, 0.5]
x = torch.randn(4, 8)
with torch.inference_mode():
    results, total = compiled(x, zip(numbers, scales, strict=True))
for result in results:
    print(result.shape)
print(float(total))
