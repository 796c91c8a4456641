r"""A lost summary: the return value of a generator that leaves the compiled function is None.

source: https://github.com/pytorch/pytorch/issues/198190
reach: exit 0, 15 statements
cause: tracing
"""

import torch
from torch import nn


class Refiner(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.correct = nn.Linear(size, size)

    def forward(self, guess):
        return guess + 0.5 * torch.tanh(self.correct(guess))


def rounds(refiner, guess, count):
    """Yields each round's guess; the number of rounds is what the generator returns."""
    for _ in range(count):
        guess = refiner(guess)
        yield guess
    return count


@torch.compile
def start(refiner, guess):
    centred = guess - guess.mean(dim=-1, keepdim=True)
    return rounds(refiner, centred, 3)


def drain(stream):
    values = []
    while True:
        try:
            values.append(next(stream))
        except StopIteration as stop:
            return values, stop.value


def main():
    torch.manual_seed(3)
    refiner = Refiner(6)
    total = 0
    with torch.no_grad():
        for _ in range(3):
            values, done = drain(start(refiner, torch.randn(2, 6)))
            total += done or 0
            print("last guess", round(values[-1].abs().mean().item(), 4))
    print("rounds in all:", total)


if __name__ == "__main__":
    main()
