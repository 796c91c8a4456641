r"""A table made anew: a function under functools.lru_cache is traced through, so nothing stays in its cache.

source: https://github.com/pytorch/pytorch/issues/152994
reach: exit 0, 13 statements
cause: tracing
"""

import functools

import torch
from torch import nn


@functools.cache
def sums_of(width):
    """One running sum for each width."""
    return torch.zeros(width)


class Centre(nn.Module):
    """Takes off the sum of all that was seen, scaled down."""

    def __init__(self, rate):
        super().__init__()
        self.rate = rate

    def forward(self, hidden):
        sums = sums_of(hidden.shape[-1])
        sums.add_(hidden.detach().mean(dim=0))
        return hidden - self.rate * sums


def build(width):
    return nn.Sequential(nn.Linear(width, 10), Centre(0.3), nn.ReLU(), nn.Linear(10, 2), Centre(0.1))


def main():
    torch.manual_seed(50)
    model = torch.compile(build(5), backend="eager")
    with torch.no_grad():
        for batch in range(4):
            output = model(torch.randn(6, 5))
            print("batch", batch, "mean", round(output.mean().item(), 5))


if __name__ == "__main__":
    main()
