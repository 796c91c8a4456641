r"""The wrong side: a zero offset that is added to minus zero is left out, and the reciprocal is minus infinity.

source: https://github.com/pytorch/pytorch/issues/189799
reach: exit 0, 3 ops
cause: graph optimisation
"""

import torch
from torch import nn


class Rates(nn.Module):
    """Turns waiting times, rounded up to whole steps, into rates; no waiting is an infinite rate."""

    def __init__(self, sensors):
        super().__init__()
        self.scale = nn.Parameter(torch.rand(sensors) + 0.5)

    def forward(self, waits):
        steps = torch.ceil(waits * self.scale)
        steps = steps + torch.zeros_like(steps)
        return torch.reciprocal(steps)


def readings(count, sensors):
    """Waiting times; the clocks are off by a little, so a few are below zero."""
    for number in range(count):
        waits = torch.rand(sensors) * 4
        waits[number % sensors] = -0.25
        yield waits


@torch.no_grad()
def main():
    torch.manual_seed(18)
    rates = Rates(4)
    rates.compile()
    for waits in readings(3, 4):
        rate = rates(waits)
        print("rates", [round(value, 3) for value in rate.tolist()], "fastest", rate.argmax().item())


if __name__ == "__main__":
    main()
