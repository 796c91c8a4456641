r"""Too much work: a generator that leaves the compiled function has run to its end before the first value is asked for.

source: https://github.com/pytorch/pytorch/issues/198190
reach: exit 0, 13 statements
cause: tracing
"""

import torch
from torch import nn


class Pager:
    """Decodes page after page, and counts the pages decoded."""

    def __init__(self, width):
        self.decode = nn.Linear(width, width)
        self.decoded = 0

    def pages(self, code, count):
        for _ in range(count):
            self.decoded += 1
            code = torch.sin(self.decode(code))
            yield code

    @torch.compile(backend="aot_eager")
    def open(self, latent):
        code = latent / latent.norm()
        return self.pages(code, 6)


def read_until_dim(pages, threshold):
    for number, page in enumerate(pages):
        if page.abs().max() < threshold:
            return number
    return -1


def main():
    torch.manual_seed(54)
    pager = Pager(7)
    with torch.no_grad():
        for threshold in (0.55, 0.5, 0.45):
            stopped = read_until_dim(pager.open(torch.randn(7)), threshold)
            print("stopped at", stopped)
    print("decoded", pager.decoded)


if __name__ == "__main__":
    main()
