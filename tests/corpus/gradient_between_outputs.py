r"""No penalty: the gradient of one output by another output of the same compiled call is None.

source: https://github.com/pytorch/pytorch/issues/132929
reach: exit 0, 10 statements
cause: aliasing/mutation
"""

import torch
from torch import nn


class Energy(nn.Module):
    """An energy over latent codes; both are given back."""

    def __init__(self):
        super().__init__()
        self.encode = nn.Linear(5, 4)
        self.energy = nn.Sequential(nn.Linear(4, 12), nn.Softplus(), nn.Linear(12, 1))

    def forward(self, inputs):
        latent = torch.tanh(self.encode(inputs))
        return latent, self.energy(latent).sum()


def force(latent, energy):
    (slope,) = torch.autograd.grad(energy, latent, retain_graph=True, allow_unused=True)
    return torch.zeros_like(latent) if slope is None else -slope


def main():
    torch.manual_seed(58)
    model = Energy()
    model.compile(backend="aot_eager")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(3):
        latent, energy = model(torch.randn(9, 5))
        target = latent.detach() + 0.5 * force(latent, energy)
        loss = (latent - target).square().sum() + 0.01 * energy
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step}: energy {energy.item():.5f}, loss {loss.item():.5f}")


if __name__ == "__main__":
    main()
