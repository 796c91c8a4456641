r"""The wrong entry: argmin over a transposed table of distances counts along the memory, not along the rows.

source: https://github.com/pytorch/pytorch/issues/197739
reach: exit 0, 3 ops
cause: layout
"""

import torch
from torch import nn


class Codebook(nn.Module):
    """Entries that samples are compared with; some entries are preferred."""

    def __init__(self, entries, width):
        super().__init__()
        self.entries = nn.Parameter(torch.randn(entries, width))
        self.preference = 0.5

    def distances(self, samples):
        return torch.cdist(samples, self.entries)

    @torch.compile
    def closest(self, distances):
        """The place of the closest pair in the table with one row for each entry."""
        by_entry = distances.t() + self.preference
        return by_entry.argmin()


class Search:
    def __init__(self, book):
        self.book = book

    def run(self, samples):
        place = self.book.closest(self.book.distances(samples))
        return divmod(place.item(), samples.shape[0])


def main():
    torch.manual_seed(34)
    search = Search(Codebook(5, 4))
    with torch.no_grad():
        for _ in range(3):
            entry, sample = search.run(torch.randn(7, 4))
            print("entry", entry, "sample", sample)


if __name__ == "__main__":
    main()
