r"""Inductor compiles for hours: each layer adds and multiplies the results of the two layers before it.

reach: exit 0, 30 statements
shows: (\*|mul).*(\+|add)|(\+|add).*(\*|mul)
hides: layer_norm|Tanh
"""

import torch
from torch import nn


class Circuit(nn.Module):
    """A soft circuit: sums and products of pairs of wires, in many layers, between two linear maps."""

    def __init__(self, signals=5, wires=12, layers=12, outputs=2):
        super().__init__()
        self.enter, self.leave = nn.Linear(signals, 2 * wires), nn.Linear(wires, outputs)
        self.prepare = nn.Sequential(nn.Linear(2 * wires, 2 * wires), nn.Tanh(), nn.Linear(2 * wires, 2 * wires))
        self.layers = layers

    def forward(self, signals):
        x = self.enter(signals)
        older, newer = (x + torch.tanh(self.prepare(x))).chunk(2, dim=-1)
        for _ in range(self.layers):
            older, newer = older + newer, older * newer
        return self.leave(torch.tanh(older + newer))


torch.manual_seed(0)
circuit = Circuit()
loss = torch.compile(circuit)(torch.randn(3, 5)).square().sum()
print("forward", loss.item(), flush=True)
loss.backward()
print("backward", circuit.enter.weight.grad.norm().item())
