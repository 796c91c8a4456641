r"""Not a number: the remainder by an infinite period is NaN in the vectorised kernel, where it is the dividend.

source: https://github.com/pytorch/pytorch/issues/198057
reach: exit 0, 1 op
cause: kernel codegen
"""

import torch
from torch import nn


class Wrap(nn.Module):
    """Wraps coordinates by the period of their axis; an axis that is not periodic has an infinite one."""

    def __init__(self, axes, periodic):
        super().__init__()
        period = torch.full((axes,), float("inf"))
        period[:periodic] = 2.0
        self.register_buffer("period", period)

    def forward(self, places):
        return torch.remainder(places, self.period)


class Walk:
    """A walk of many particles at once."""

    def __init__(self, particles):
        self.wrap = torch.compile(Wrap(16, periodic=12))
        self.places = torch.rand(particles, 16)

    def step(self):
        self.places = self.wrap(self.places + torch.rand_like(self.places))
        return self.places[:, -1]


def main():
    torch.manual_seed(48)
    walk = Walk(8)
    for number in range(3):
        free = walk.step()
        print("step", number, "on the free axis", round(free.mean().item(), 4))
    print("lost", int(walk.places.isnan().sum()))


if __name__ == "__main__":
    main()
