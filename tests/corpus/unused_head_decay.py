r"""Drifting weights: a head outside of the loss gets a gradient of zeros, not None, and the optimizer decays it.

source: https://github.com/pytorch/pytorch/issues/131794
reach: exit 0, 13 statements
cause: aliasing/mutation
"""

import torch
from torch import nn


class Heads(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Linear(6, 12)
        self.colour = nn.Linear(12, 3)
        self.size = nn.Linear(12, 2)

    def forward(self, inputs):
        hidden = torch.tanh(self.trunk(inputs))
        return self.colour(hidden), self.size(hidden)


def alternate(model, steps):
    """Trains the first head for some steps, the other one comes later."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05, weight_decay=0.5)
    for step in range(steps):
        inputs = torch.randn(16, 6)
        colour, size = model(inputs)
        if step < steps - 1:
            loss = nn.functional.cross_entropy(colour, torch.randint(0, 3, (16,)))
        else:
            loss = size.square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step}: loss {loss.item():.5f}")


torch.manual_seed(26)
heads = Heads()
compiled = torch.compile(heads, backend="aot_eager")
alternate(compiled, steps=5)
print("norm of the late head", round(heads.size.weight.norm().item(), 5))
