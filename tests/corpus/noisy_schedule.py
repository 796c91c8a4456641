r"""The same number at each call: a random.Random of the program is drawn from while tracing and never after.

source: https://github.com/pytorch/pytorch/issues/145445
reach: exit 0, 10 statements
cause: tracing
"""

import random

import torch
from torch import nn


class Augment:
    """Scales and shifts a batch by amounts of its own source of chance."""

    def __init__(self, seed):
        self.chance = random.Random(seed)

    def __call__(self, batch):
        return batch * self.chance.uniform(0.5, 1.5) + self.chance.gauss(0.0, 0.1)


class Trainer:
    def __init__(self, model, augment):
        self.model = model
        self.augment = augment
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
        self.step = torch.compile(self.loss, backend="eager")

    def loss(self, batch, labels):
        logits = self.model(self.augment(batch))
        return nn.functional.cross_entropy(logits, labels)

    def fit(self, steps):
        for _ in range(steps):
            batch, labels = torch.randn(32, 9), torch.randint(0, 3, (32,))
            loss = self.step(batch, labels)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            print(f"loss {loss.item():.5f}")


if __name__ == "__main__":
    torch.manual_seed(8)
    network = nn.Sequential(nn.Linear(9, 24), nn.ReLU(), nn.Linear(24, 3))
    trainer = Trainer(network, Augment(seed=21))
    trainer.fit(6)
    print("next draw", trainer.augment.chance.random())
