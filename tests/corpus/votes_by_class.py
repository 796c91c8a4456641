r"""The same sum in every row: votes added to an expanded row of priors all land in the one row behind it.

source: https://github.com/pytorch/pytorch/issues/183986
reach: exit 0, 3 ops
cause: aliasing/mutation
"""

import torch
from torch import nn


class Votes(nn.Module):
    """Adds up what the members of a committee say, by the class that they were asked about."""

    def __init__(self, classes, width):
        super().__init__()
        self.classes = classes
        self.read = nn.Linear(5, width)

    def forward(self, opinions, asked):
        said = torch.sigmoid(self.read(opinions))
        prior = torch.full((1, said.shape[1]), 0.5)
        return prior.expand(self.classes, -1).index_add(0, asked, said)


def meetings(count, members, classes):
    for number in range(count):
        yield torch.randn(members, 5), (torch.arange(members) * (number + 1)) % classes


def main():
    torch.manual_seed(12)
    votes = Votes(classes=4, width=3).eval()
    count = torch.compile(votes)
    with torch.no_grad():
        for opinions, asked in meetings(3, members=5, classes=4):
            total = count(opinions, asked)
            print("by class", [round(value, 4) for value in total.sum(dim=1).tolist()])


if __name__ == "__main__":
    main()
