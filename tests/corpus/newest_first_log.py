r"""A wrong log: the bounded deque, filled from the left, keeps the oldest losses and drops the newest.

source: https://github.com/pytorch/pytorch/pull/139279
reach: exit 0, 16 statements
says: is off by .*; with other rounding eager mode's moves
cause: tracing
layer: soak
"""

from collections import deque

import torch
from torch import nn

torch.manual_seed(7)
KEEP = 4


class Regressor(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(3, 10), nn.SiLU(), nn.Linear(10, 1))

    def forward(self, inputs):
        return self.layers(inputs).squeeze(-1)


def mixture(count):
    inputs = torch.rand(count, 3) * 4 - 2
    return inputs, inputs.prod(dim=1) + 0.5 * inputs[:, 0]


model = Regressor()
optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
newest = deque(maxlen=KEEP)


@torch.compile(backend="aot_eager")
def loss_of(inputs, targets):
    error = model(inputs) - targets
    loss = (error * error).mean()
    newest.appendleft(loss.detach())
    return loss


for _ in range(9):
    inputs, targets = mixture(24)
    optimizer.zero_grad()
    loss_of(inputs, targets).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 5.0)
    optimizer.step()

print("newest losses:", [round(loss.item(), 4) for loss in newest])
print("weight norm:", round(model.layers[0].weight.norm().item(), 4))
