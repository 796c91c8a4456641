r"""A wrong branch: an object that gives out another class as its __class__ is taken for what it is.

source: https://github.com/pytorch/pytorch/issues/174050
reach: exit 0, 12 statements
cause: tracing
"""

import torch
from torch import nn


class Plain:
    slope = 0.01


class Steep:
    slope = 0.5


class Lazy:
    """Stands in for a setting that is made later, as mocks and proxies do."""

    def __init__(self, kind):
        self.kind = kind
        self.slope = kind.slope

    @property
    def __class__(self):
        return self.kind


class Activation(nn.Module):
    def __init__(self, setting):
        super().__init__()
        self.setting = setting

    def forward(self, hidden):
        if self.setting.__class__ is Steep:
            return torch.where(hidden > 0, hidden, hidden * self.setting.slope)
        return torch.tanh(hidden)


class Model(nn.Module):
    def __init__(self, setting):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(6, 6) for _ in range(2)])
        self.activation = Activation(setting)

    def forward(self, inputs):
        for layer in self.layers:
            inputs = self.activation(layer(inputs))
        return inputs


def main():
    for setting in (Plain(), Lazy(Steep)):
        torch.manual_seed(52)
        model = Model(setting)
        model.compile(backend="eager")
        print(type(setting).__name__, round(model(torch.randn(4, 6)).abs().mean().item(), 5))


main()
