r"""Too steep: the gradients of single rows are added up in one row, as the zeros that they start from are expanded.

source: https://github.com/pytorch/pytorch/issues/188084
reach: exit 0, 4 ops
cause: aliasing/mutation
"""

import torch
from torch.func import grad_and_value, vmap

CHOSEN = torch.tensor([0, 2])
WEIGHTS = torch.tensor([1.5, -0.5])


def energy(row):
    """The energy of a row of features: a weighted sum of the chosen ones."""
    stacked = torch.stack([row[number] for number in range(4)], dim=-1)
    return (torch.index_select(stacked, -1, CHOSEN) * WEIGHTS).sum()


class Sampler:
    """Goes down the gradient of the energy, for all rows at once."""

    def __init__(self, rows):
        self.places = torch.randn(rows, 4)
        self.slope = torch.compile(vmap(grad_and_value(energy)), fullgraph=True, dynamic=True)

    def step(self, size):
        slope, value = self.slope(self.places)
        self.places = self.places - size * slope
        return value.mean().item()


def main():
    torch.manual_seed(23)
    sampler = Sampler(5)
    for number in range(4):
        print("step", number, "energy", round(sampler.step(0.1), 4))


if __name__ == "__main__":
    main()
