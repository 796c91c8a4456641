r"""A stale switch: whether an environment variable is set is asked once, in the first call.

source: https://github.com/pytorch/pytorch/pull/189027
reach: exit 0, 10 statements
cause: tracing
"""

import contextlib
import os

import torch
from torch import nn


@contextlib.contextmanager
def exact_mode():
    os.environ["EXACT_NORM"] = "yes"
    try:
        yield
    finally:
        del os.environ["EXACT_NORM"]


class RootNorm(nn.Module):
    """Normalises by the root mean square, or by a cheap guess of it."""

    def __init__(self, width):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))

    def forward(self, hidden):
        if "EXACT_NORM" in os.environ:
            size = hidden.square().mean(dim=-1, keepdim=True).sqrt()
        else:
            size = hidden.abs().mean(dim=-1, keepdim=True)
        return self.scale * hidden / size


class Probe:
    def __init__(self, width):
        self.model = nn.Sequential(RootNorm(width), nn.Linear(width, 3), RootNorm(3))
        self.model.compile(backend="eager")

    @torch.no_grad()
    def size(self, inputs):
        return round(self.model(inputs).square().mean().item(), 5)


os.environ.pop("EXACT_NORM", None)
torch.manual_seed(62)
probe = Probe(6)
inputs = torch.randn(5, 6)
print("cheap", probe.size(inputs))
with exact_mode():
    print("exact", probe.size(inputs))
print("cheap", probe.size(inputs))
