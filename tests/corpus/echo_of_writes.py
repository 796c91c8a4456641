r"""Echoes of echoes: a memory that is written at some places and then added to its mirror image reads what it writes.

source: https://github.com/pytorch/pytorch/issues/198270
reach: exit 0, 3 ops
cause: aliasing/mutation
"""

import torch
from torch import nn


class EchoMemory(nn.Module):
    """A row of slots; what is written comes back from the other end."""

    def __init__(self, slots):
        super().__init__()
        self.encode = nn.Linear(3, 1)
        self.register_buffer("slots", torch.zeros(slots))

    def forward(self, inputs, places):
        self.slots[places] = self.encode(inputs).squeeze(-1)
        self.slots.add_(self.slots.flip(0))
        return self.slots.sum()


class Session:
    def __init__(self, slots):
        self.memory = EchoMemory(slots)
        self.step = torch.compile(self.memory)

    @torch.no_grad()
    def write(self, number):
        places = torch.tensor([number % 8, (number + 3) % 8])
        return self.step(torch.randn(2, 3), places).item()


def main():
    torch.manual_seed(9)
    session = Session(8)
    for number in range(3):
        print("sum", number, round(session.write(number), 4))
    print("slots", [round(value, 4) for value in session.memory.slots.tolist()])


if __name__ == "__main__":
    main()
