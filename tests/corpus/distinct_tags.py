r"""A wrong count: a set of equal objects made while tracing keeps all of them.

source: https://github.com/pytorch/pytorch/pull/186669
reach: exit 0, 12 statements
cause: tracing
"""

import torch


class Cell:
    """A square of the coarse grid."""

    def __init__(self, row, column):
        self.row = row
        self.column = column

    def __eq__(self, other):
        return self.row == other.row and self.column == other.column

    def __hash__(self):
        return 1000 * self.row + self.column


def occupied(places, side):
    return len({Cell(row // side, column // side) for row, column in places})


class Density:
    def __init__(self, side):
        self.side = side
        self.density = torch.compile(self._density)

    def _density(self, field, places):
        kept = torch.stack([field[row, column] for row, column in places])
        return kept.abs().sum() / occupied(places, self.side)


def main():
    torch.manual_seed(14)
    density = Density(side=4)
    walks = [[(0, 0), (1, 2), (3, 3), (4, 1)], [(7, 7), (6, 6), (2, 5), (2, 6)]]
    for walk in walks:
        field = torch.randn(8, 8).cumsum(dim=0)
        print("density", round(density.density(field, walk).item(), 4))


if __name__ == "__main__":
    main()
