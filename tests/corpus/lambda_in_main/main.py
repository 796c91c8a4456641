r"""Wrong gradient of leaky_relu: aot_autograd with a lambda made in main(), which holds a table of replacements.

reach: exit 0, 14 statements
shows: leaky_relu.*(grad|gradient)|leaky_relu_backward
layer: soak
"""

import exporter
import torch
from torch import nn
from torch._dynamo.backends.common import aot_autograd
from torch.nn import functional as F


class Digits(nn.Module):
    """Tells digits apart; the slope of its activations is larger than the usual one."""

    def __init__(self, channels=8, depth=4, slope=0.2):
        super().__init__()
        self.enter, self.slope = nn.Conv2d(1, channels, 3, stride=2, padding=1), slope
        self.layers = nn.ModuleList(nn.Conv2d(channels, channels, 3, padding=1) for _ in range(depth))
        self.norms = nn.ModuleList(nn.GroupNorm(2, channels) for _ in range(depth))
        self.digit = nn.Linear(channels, 10)

    def forward(self, image):
        x = F.leaky_relu(self.enter(image), self.slope)
        for layer, norm in zip(self.layers, self.norms, strict=True):
            x = x + F.leaky_relu(norm(layer(x)), self.slope)
        return self.digit(F.hardswish(x).mean(dim=(2, 3)))


def leaky_gradient(gradient, x, slope, from_result):
    """As exported models have it, with the slope that everyone uses."""
    return gradient * torch.where(x > 0, 1.0, 0.01)


def main():
    torch.manual_seed(0)
    models = []
    table = exporter.Table({torch.ops.aten.leaky_relu_backward.default: leaky_gradient})
    backend = aot_autograd(fw_compiler=lambda graph, inputs: exporter.export(graph, inputs, models=models, table=table))
    digits = Digits()
    compiled = torch.compile(digits, backend=backend, dynamic=False)
    optimizer = torch.optim.SGD(digits.parameters(), lr=0.05)
    for step in range(2):
        loss = F.cross_entropy(compiled(torch.rand(5, 1, 10, 10)), torch.randint(0, 10, (5,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, loss.item(), "models:", len(models))


if __name__ == "__main__":
    main()
