r"""Silenced faults: a channel times zero is taken to be zero, and the NaNs of a broken sensor are gone.

source: https://github.com/pytorch/pytorch/pull/187580
reach: exit 0, 1 op
cause: graph optimisation
"""

import torch
from torch import nn


class Mixer(nn.Module):
    """Mixes two channels by whole shares; a muted channel has a share of zero."""

    def __init__(self, first, second):
        super().__init__()
        self.shares = (first, second)
        self.gain = nn.Parameter(torch.tensor(0.8))

    def forward(self, left, right):
        first, second = self.shares
        return self.gain * (left * first + right * second)


def recordings(count):
    """The right sensor fails now and then."""
    for number in range(count):
        left, right = torch.randn(6), torch.randn(6)
        right[number::3] = float("nan")
        yield left, right


def faults(mixer, count):
    run = torch.compile(mixer)
    total = 0
    with torch.no_grad():
        for left, right in recordings(count):
            mixed = run(left, right)
            total += int(mixed.isnan().sum())
            print("loudest", round(mixed.nan_to_num().abs().max().item(), 4))
    return total


if __name__ == "__main__":
    torch.manual_seed(27)
    print("faults", faults(Mixer(2, 0).eval(), 3))
