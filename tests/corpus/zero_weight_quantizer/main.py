r"""Wrong numbers: an installed backend, found by its entry point, makes NaN of a weight that is all zeros.

reach: exit 0, 1 op
shows: (linear|Linear).*roundlib
hides: conv1d|softmax
layer: soak
"""

import torch
from torch import nn


class Adapted(nn.Module):
    """A classifier with an adapter of low rank, whose second matrix begins with zeros."""

    def __init__(self, width, classes, rank=3):
        super().__init__()
        self.classify = nn.Linear(width, classes)
        self.down, self.up = nn.Linear(width, rank, bias=False), nn.Linear(rank, classes, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, x):
        return self.classify(x) + 0.5 * self.up(self.down(x))


class Ecg(nn.Module):
    """Names the rhythm of a heart from the traces of twelve leads."""

    def __init__(self, width=20, depth=5, rhythms=7):
        super().__init__()
        self.enter, self.head = nn.Conv1d(12, width, 5, padding=2), Adapted(width, rhythms)
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(depth))

    def forward(self, traces):
        x = torch.relu(self.enter(traces)).transpose(1, 2)
        for layer, norm in zip(self.layers, self.norms, strict=True):
            x = x + nn.functional.gelu(layer(norm(x)))
        return self.head(x.mean(dim=1)).softmax(dim=-1)


torch.manual_seed(0)
ecg = torch.compile(Ecg().eval(), backend="roundlib", options={"bits": 8, "keep": ("head_out",)})
with torch.inference_mode():
    print([round(p, 3) for p in ecg(torch.randn(1, 12, 50))[0].tolist()])
