r"""The wrong peak: argmax over the means of a transposed block counts along the memory.

source: https://github.com/pytorch/pytorch/issues/193661
reach: exit 0, 3 ops
cause: layout
"""

import torch


class Oscillators:
    """A grid of oscillators, sampled at a few times; the strongest one is looked for column by column."""

    def __init__(self, rows, columns):
        self.phase = torch.rand(rows, columns, 1) * 6.2831853
        self.speed = torch.rand(rows, columns, 1) + 0.5
        self.rows = rows

    def signal(self, start):
        times = start + torch.arange(3) * 0.1
        return torch.sin(self.phase + times * self.speed)


def peak(signal):
    by_column = signal.transpose(0, 1)
    return by_column.mean(dim=-1).argmax()


def follow(oscillators, times):
    find = torch.compile(peak)
    for time in times:
        signal = oscillators.signal(time)
        column, row = divmod(find(signal).item(), oscillators.rows)
        yield row, column


if __name__ == "__main__":
    torch.manual_seed(74)
    grid = Oscillators(5, 7)
    for row, column in follow(grid, (0.0, 0.7, 1.4, 2.1)):
        print("peak at row", row, "column", column)
