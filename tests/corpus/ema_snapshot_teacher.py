r"""Wrong numbers: a buffer is copied into another one and then changed in place; the copy gets the new values.

reach: exit 0, 3 ops
shows: mul_\(.*assert_close
hides: linear|normalize
"""

import torch
from torch import nn
from torch.nn import functional as F


class Encoder(nn.Module):
    def __init__(self, pixels=12, width=16, depth=3):
        super().__init__()
        self.enter = nn.Linear(pixels, width)
        self.layers = nn.ModuleList(nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width)) for _ in range(depth))

    def forward(self, x):
        x = self.enter(x)
        for layer in self.layers:
            x = x + F.gelu(layer(x))
        return F.normalize(x, dim=-1)


class Centres(nn.Module):
    """Compares features with moving centres of clusters, and remembers where the centres were a batch ago."""

    def __init__(self, clusters=5, width=16):
        super().__init__()
        self.encode = Encoder(width=width)
        self.register_buffer("centres", F.normalize(torch.randn(clusters, width), dim=-1))
        self.register_buffer("before", torch.zeros(clusters, width))

    def forward(self, x):
        features = self.encode(x)
        likeness = features @ self.centres.mT
        shares = torch.softmax(likeness * 8, dim=-1)
        found = F.normalize(shares.mT @ features, dim=-1)
        self.before[:, :] = self.centres[:, :]
        self.centres.mul_(0.8).add_(0.2 * found)
        return likeness


def remembered(compiles):
    """Return the centres of a batch ago, after two batches."""
    torch.manual_seed(0)
    model = Centres().eval()
    run = torch.compile(model) if compiles else model
    with torch.no_grad():
        for _ in range(2):
            run(torch.randn(10, 12))
    return model.before


apart = (remembered(True) - remembered(False)).abs().max().item()
print("largest difference of the remembered centres", apart)
raise SystemExit(int(apart > 1e-4))
