r"""Stale rows: rows of the model's own buffer are handed in after a first call with rows from elsewhere.

source: https://github.com/pytorch/pytorch/issues/139789
reach: exit 0, 12 statements
cause: aliasing/mutation
"""

import torch
from torch import nn


class MemoryBank(nn.Module):
    """Fades what it holds, and answers with the keys given and the mean of what is left."""

    def __init__(self, slots, width, fade):
        super().__init__()
        self.fade = fade
        self.project = nn.Linear(width, 3)
        self.register_buffer("memory", torch.randn(slots, width))

    def forward(self, keys):
        self.memory.mul_(self.fade)
        return self.project(keys + self.memory.mean(dim=0))


class Session:
    def __init__(self):
        self.bank = MemoryBank(slots=6, width=4, fade=0.5)
        self.ask = torch.compile(self.bank, backend="aot_eager")

    @torch.no_grad()
    def run(self):
        for round_number in range(4):
            keys = torch.randn(6, 4) if round_number == 0 else self.bank.memory.view(6, 4)
            answer = self.ask(keys)
            print(f"round {round_number}: {answer.sum().item():.5f}")


if __name__ == "__main__":
    torch.manual_seed(72)
    Session().run()
