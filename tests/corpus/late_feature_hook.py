r"""No features: a forward hook registered on a layer after the first call is never called.

source: https://github.com/pytorch/pytorch/issues/117758
reach: exit 0, 10 statements
cause: tracing
"""

import torch
from torch import nn


class Tower(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(width, width) for _ in range(3)])
        self.norms = nn.ModuleList([nn.LayerNorm(width) for _ in range(3)])

    def forward(self, inputs):
        for layer, norm in zip(self.layers, self.norms, strict=True):
            inputs = inputs + torch.relu(layer(norm(inputs)))
        return inputs


class SteeredTower:
    """Serves a tower and can push what one of its layers puts out into a direction."""

    def __init__(self, width):
        self.tower = Tower(width)
        self.run = torch.compile(self.tower)

    def steer(self, index, direction, strength):
        def push(module, inputs, output):
            return output + strength * direction

        return self.tower.layers[index].register_forward_hook(push)


def main():
    torch.manual_seed(18)
    steered = SteeredTower(9)
    direction = torch.nn.functional.normalize(torch.randn(9), dim=0)
    inputs = torch.randn(4, 9)
    with torch.no_grad():
        print("before", round((steered.run(inputs) @ direction).mean().item(), 4))
        handle = steered.steer(1, direction, 5.0)
        print("pushed", round((steered.run(inputs) @ direction).mean().item(), 4))
        handle.remove()
        print("after", round((steered.run(inputs) @ direction).mean().item(), 4))


main()
