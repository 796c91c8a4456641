r"""Wrong weights: an object made while tracing is not found in a dict by __eq__ and __hash__.

source: https://github.com/pytorch/pytorch/pull/186669
reach: exit 0, 13 statements
cause: tracing
"""

import torch
from torch import nn


class Task:
    def __init__(self, name, language):
        self.name = name
        self.language = language

    def __eq__(self, other):
        return (self.name, self.language) == (other.name, other.language)

    def __hash__(self):
        return hash((self.name, self.language))


WEIGHTS = {Task("rank", "de"): 4.0, Task("rank", "en"): 0.5, Task("tag", "en"): 2.0}


class MultiTask(nn.Module):
    def __init__(self, names):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(6, 14), nn.GELU())
        self.heads = nn.ModuleDict({name: nn.Linear(14, 1) for name in names})

    def forward(self, batch, name, language):
        hidden = self.trunk(batch)
        weight = WEIGHTS.get(Task(name, language), 1.0)
        return weight * self.heads[name](hidden).square().mean()


def train(model, schedule):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for name, language in schedule:
        optimizer.zero_grad()
        loss = model(torch.randn(12, 6), name, language)
        loss.backward()
        optimizer.step()
        print(f"{name} {language}: {loss.item():.5f}")


torch.manual_seed(10)
multitask = MultiTask(["rank", "tag"])
multitask.compile(backend="aot_eager")
train(multitask, [("rank", "de"), ("tag", "en"), ("rank", "en"), ("rank", "de")])
