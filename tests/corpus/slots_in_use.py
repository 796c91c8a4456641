r"""A slot not given back: a finally clause does not run when an operator of the graph raises.

source: https://github.com/pytorch/pytorch/issues/195488
reach: exit 0, 15 statements
cause: tracing
"""

import torch
import torch.nn.functional as F


class Slots:
    def __init__(self, count):
        self.free = count
        self.closed = 0


class Scorer:
    def __init__(self, words, width, slots):
        generator = torch.Generator().manual_seed(44)
        self.embedding = torch.randn(words, width, generator=generator)
        self.output = torch.randn(width, generator=generator)
        self.slots = slots

    @torch.compile(backend="aot_eager")
    def score(self, words):
        try:
            rows = F.embedding(words, self.embedding)
            return torch.sigmoid(rows.mean(dim=0) @ self.output)
        finally:
            self.slots.closed += 1


def main():
    slots = Slots(4)
    scorer = Scorer(20, 8, slots)
    for words in ([3, 4], [5, 19], [20, 1], [2, 2], [0, 33]):
        slots.free -= 1
        try:
            print("score", round(scorer.score(torch.tensor(words)).item(), 5))
        except IndexError:
            print("no such word")
    print("free", slots.free + slots.closed)


if __name__ == "__main__":
    main()
