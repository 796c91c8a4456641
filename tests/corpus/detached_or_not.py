r"""A wrong branch: whether a tensor has a history is taken from the first call.

source: https://github.com/pytorch/pytorch/issues/139476
reach: exit 0, 11 statements
cause: tracing
"""

import torch
from torch import nn


def normalise(tensor):
    """Free inputs are put onto the sphere; what a layer made is only scaled."""
    if tensor.grad_fn is None:
        return tensor / tensor.norm(dim=-1, keepdim=True)
    return tensor / tensor.shape[-1] ** 0.5


class Inversion:
    """Looks for an input that a fixed network maps to a wanted output."""

    def __init__(self, network, wanted):
        self.network = network
        self.wanted = wanted
        self.normalise = torch.compile(normalise, backend="eager")

    def loss(self, guess):
        hidden = self.network[0](self.normalise(guess))
        return (self.network[1](self.normalise(hidden)) - self.wanted).square().mean()


def main():
    torch.manual_seed(48)
    network = nn.ModuleList([nn.Linear(8, 8), nn.Linear(8, 8)]).requires_grad_(False)
    inversion = Inversion(network, torch.randn(3, 8) / 4)
    guess = torch.randn(3, 8, requires_grad=True)
    optimizer = torch.optim.Adam([guess], lr=0.1)
    for step in range(4):
        loss = inversion.loss(guess)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step}: loss {loss.item():.5f}")


if __name__ == "__main__":
    main()
