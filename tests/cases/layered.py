"""A model of some 30 ops, and a step of it, for programs that differ only in what their backend does."""

import minifier_backends.faulty  # noqa: F401 - registers the backends
import torch
import torch.nn.functional as F
from torch import nn


class Layered(nn.Module):
    """Has one tanh, one softmax behind it, one layer_norm, a state that `count` adds to, and a view of the state."""

    def __init__(self, count=False):
        super().__init__()
        self.into, self.out, self.norm = nn.Linear(8, 16), nn.Linear(16, 6), nn.LayerNorm(16)
        self.count = count

    def forward(self, x, state):
        hidden = F.silu(self.into(x))
        gate = torch.sigmoid(hidden) * 2
        hidden = self.norm(torch.cat([hidden[:, :8], hidden[:, 8:].cos()], -1) + gate)
        hidden = hidden * 3 / (F.softplus(hidden).sum(-1, keepdim=True).abs() + 1)
        hidden = torch.softmax(torch.tanh(hidden), -1) * 16
        if self.count:
            state.add_(1)
        hidden = torch.exp(-torch.where(hidden > 0, hidden, hidden * 0.5)) - gate.mean()
        return F.gelu(self.out(hidden)), torch.sin(state) + 1, state.view(-1)


def step(backend, *, dtype=torch.float32, trains=False, count=False, times=1, dynamic=False, **options):
    """Call the model compiled by this backend so many times, each time with a backward pass if it `trains`."""
    torch.manual_seed(0)
    model = Layered(count).to(dtype)
    x, state = torch.randn(12, 8, dtype=dtype), torch.zeros(2, 3, dtype=dtype)
    compiled = torch.compile(model, backend=backend, dynamic=dynamic, options=options)
    for _ in range(times):
        with torch.set_grad_enabled(trains):
            result = compiled(x, state)[0]
        if trains:
            result.float().sum().backward()
