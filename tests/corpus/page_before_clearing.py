r"""Nothing left: a copy with some rows replaced is made in the memory of the page itself, which is cleared after that.

source: https://github.com/pytorch/pytorch/issues/198094
reach: exit 0, 2 ops
cause: aliasing/mutation
"""

import torch
from torch import nn


class Page(nn.Module):
    """A page of rows; taking it gives the rows, with a corrected part, and clears the page."""

    def __init__(self, rows, width):
        super().__init__()
        self.correct = nn.Linear(width, width)
        self.register_buffer("rows", torch.randn(rows, width))

    def forward(self, part):
        corrected = torch.tanh(self.correct(part))
        taken = torch.slice_scatter(self.rows, corrected, dim=0, start=1, end=3)
        self.rows.zero_()
        return taken


@torch.no_grad()
def main():
    torch.manual_seed(14)
    page = Page(4, 3)
    take = torch.compile(page)
    for number in range(2):
        taken = take(torch.randn(2, 3))
        print("page", number, [round(value, 4) for value in taken.sum(dim=1).tolist()])
        page.rows.add_(torch.randn(4, 3))
    print("left", round(page.rows.sum().item(), 4))


if __name__ == "__main__":
    main()
