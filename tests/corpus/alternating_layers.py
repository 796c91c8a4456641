r"""One kind of layer only: a nested region within another is used again for a layer that takes the other branch.

source: https://github.com/pytorch/pytorch/issues/192905
reach: exit 0, 20 statements
shows: backend="eager"
cause: reuse identity
"""

import torch
from torch import nn


class Layer(nn.Module):
    """A layer that smooths or sharpens."""

    def __init__(self, smooth):
        super().__init__()
        self.smooth = smooth


@torch.compiler.nested_compile_region
def activate(layer, hidden):
    if layer.smooth:
        return torch.tanh(hidden)
    return hidden.square()


@torch.compiler.nested_compile_region
def block(layer, hidden):
    return activate(layer, hidden) + 0.1


class Stack(nn.Module):
    def __init__(self, depth):
        super().__init__()
        self.layers = nn.ModuleList(Layer(number % 2 == 0) for number in range(depth))

    def forward(self, hidden):
        total = torch.zeros_like(hidden)
        for layer in self.layers:
            total = total + block(layer, hidden)
        return total


def main():
    torch.manual_seed(21)
    stack = Stack(4)
    run = torch.compile(stack, backend="aot_eager", fullgraph=True)
    for number in range(2):
        total = run(torch.randn(6) * 2)
        print("input", number, "total", round(total.sum().item(), 4))


if __name__ == "__main__":
    main()
