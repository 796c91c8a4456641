r"""Missing entries: what is appended before an operator raises at run time is lost with the exception.

source: https://github.com/pytorch/pytorch/issues/195488
reach: exit 0, 14 statements
cause: tracing
"""

import torch
from torch import nn


class Lookup(nn.Module):
    """Embeds ids and writes down every request, answered or not."""

    def __init__(self, rows, width):
        super().__init__()
        self.table = nn.Parameter(torch.randn(rows, width))
        self.mix = nn.Linear(width, width)
        self.journal = []

    def forward(self, ids):
        self.journal.append(f"asked for {ids.shape[0]}")
        picked = torch.index_select(self.table, 0, ids)
        self.journal.append("answered")
        return self.mix(picked).mean(dim=0)


class Service:
    def __init__(self, model):
        self.model = model
        self.refused = 0

    def handle(self, ids):
        try:
            return self.model(torch.tensor(ids)).norm().item()
        except IndexError:
            self.refused += 1
            return float("nan")


def main():
    torch.manual_seed(42)
    lookup = Lookup(10, 5)
    lookup.compile(backend="eager")
    service = Service(lookup)
    with torch.no_grad():
        for ids in ([1, 2, 3], [4, 99, 1], [7, 8, 9], [12, 0, 0]):
            print("answer", round(service.handle(ids), 5))
    print("refused", service.refused, "journal", lookup.journal)


if __name__ == "__main__":
    main()
