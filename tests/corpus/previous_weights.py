r"""Nothing changed: a view of weights, kept before .data is given new ones, shows the new ones as well.

source: https://github.com/pytorch/pytorch/issues/94773
reach: exit 0, 7 statements
cause: aliasing/mutation
"""

import torch
from torch import nn


class Average(nn.Module):
    """An average of weights that come in; says what it was before."""

    def __init__(self, share):
        super().__init__()
        self.share = share

    def forward(self, weights, incoming):
        before = weights[:]
        weights.data = incoming * self.share + weights * (1 - self.share)
        return before


class Training:
    def __init__(self, width):
        self.average = Average(0.25)
        self.update = torch.compile(self.average)
        self.weights = torch.randn(width)

    def moved(self):
        before = self.update(self.weights, torch.randn(self.weights.shape))
        return (self.weights - before).abs().sum().item()


def main():
    torch.manual_seed(66)
    training = Training(4)
    for number in range(3):
        print("update", number, "moved by", round(training.moved(), 4))
    print("weights", [round(value, 4) for value in training.weights.tolist()])


if __name__ == "__main__":
    main()
