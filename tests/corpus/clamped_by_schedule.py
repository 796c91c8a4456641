r"""A stale bound: the third float that a clamp is given clips at the second one, in both directions.

source: https://github.com/pytorch/pytorch/issues/194976
reach: exit 0, 11 statements
cause: symbolic
"""

import torch
from torch import nn


class Gate(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.inner = nn.Linear(width, width)

    def forward(self, inputs, limit):
        return self.inner(inputs).clamp(min=-limit, max=limit)


def limits(steps):
    """The bound is let go from step to step."""
    for step in range(steps):
        yield 0.25 * 2.0**step


def train(gate, steps):
    run = torch.compile(gate)
    optimizer = torch.optim.SGD(gate.parameters(), lr=0.05)
    for limit in limits(steps):
        outputs = run(torch.randn(8, 4) * 4, limit)
        loss = outputs.square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"limit {limit} largest {outputs.abs().max().item():.4f} loss {loss.item():.4f}")


if __name__ == "__main__":
    torch.manual_seed(6)
    train(Gate(4), 4)
