r"""Wrong gradients: a full backward pre-hook registered after the first step is left out.

source: https://github.com/pytorch/pytorch/issues/117265
reach: exit 0, 12 statements
cause: tracing
"""

import torch
from torch import nn


class Dual(nn.Module):
    """One trunk, two heads."""

    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(5, 18), nn.ELU())
        self.price = nn.Linear(18, 1)
        self.risk = nn.Linear(18, 1)

    def forward(self, features):
        hidden = self.trunk(features)
        return self.price(hidden).squeeze(1), self.risk(hidden).squeeze(1)


def silence(module, grad_output):
    return tuple(None if gradient is None else torch.zeros_like(gradient) for gradient in grad_output)


def fit(model, steps, silent_from):
    compiled = torch.compile(model, backend="aot_eager")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(steps):
        if step == silent_from:
            model.risk.register_full_backward_pre_hook(silence)
        features = torch.randn(20, 5)
        price, risk = compiled(features)
        loss = (price - features.sum(dim=1)).square().mean() + (risk - features[:, 0].abs()).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step}: loss {loss.item():.4f}, risk weight {model.risk.weight.norm().item():.5f}")


if __name__ == "__main__":
    torch.manual_seed(20)
    fit(Dual(), steps=5, silent_from=2)
