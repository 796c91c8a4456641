"""Dynamo raises Unsupported: a compiled function returns a context manager that a generator function made.

source: https://github.com/pytorch/pytorch/pull/167249
reach: exit 0, 9 statements
shows: contextmanager
"""

import contextlib

import torch
from torch import nn

TIMES = []


@contextlib.contextmanager
def section(name):
    """Note that a section of the model was entered and left."""
    TIMES.append(f"{name}: begin")
    try:
        yield
    finally:
        TIMES.append(f"{name}: end")


class Block(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.gate, self.value = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x, name="block"):
        hidden = self.norm(x)
        hidden = torch.sigmoid(self.gate(hidden)) * self.value(hidden)
        after = section(name)
        return x + hidden, after


torch.manual_seed(0)
block = torch.compile(Block().eval(), backend="eager", fullgraph=True)
x = torch.randn(2, 8)
with torch.no_grad():
    for _ in range(2):
        x, after = block(x)
        with after:
            x = x * 0.5
print(x.sum(), TIMES)
