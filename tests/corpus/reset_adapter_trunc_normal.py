"""Dynamo raises Unsupported: trunc_normal_ branches on the values of a tensor that gives its bounds.

source: https://github.com/pytorch/pytorch/issues/194768
reach: exit 0, 6 statements
shows: [Dd]ata-dependent
"""

import torch
from torch import nn


class Adapter(nn.Module):
    """A low-rank adapter that draws its weights anew, within bounds that follow the layer beside it."""

    def __init__(self, width=8, rank=2):
        super().__init__()
        self.base = nn.Linear(width, width)
        self.down, self.up = nn.Linear(width, rank, bias=False), nn.Linear(rank, width, bias=False)

    def reset(self):
        spread = self.base.weight.detach().std()
        with torch.no_grad():
            nn.init.trunc_normal_(self.down.weight, std=0.02, a=-spread, b=spread)
            self.up.weight.zero_()
        return spread

    def forward(self, x, fresh=False):
        spread = self.reset() if fresh else torch.ones(())
        hidden = torch.relu(self.base(x))
        return hidden + self.up(self.down(x)) * spread


torch.manual_seed(0)
model = Adapter()
compiled = torch.compile(model, backend="eager", fullgraph=True)
x = torch.randn(4, 8)
print(compiled(x).shape)
result = compiled(x, fresh=True)
result.sum().backward()
print(result.mean().item())
