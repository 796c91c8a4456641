r"""NameError on a GPU: a layer calls the script's own Triton kernel, whose name begins with two underscores.

source: https://github.com/pytorch/pytorch/issues/170398
reach: exit 0, 1 op
shows: __shrink_kernel.*NameError
hides: linear|layer_norm
needs: cuda
"""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def __shrink_kernel(x, threshold, out, count, width, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = place < count
    value = tl.load(x + place, mask=inside)
    limit = tl.load(threshold + place % width, mask=inside)
    size = tl.maximum(tl.abs(value) - limit, 0.0)
    tl.store(out + place, tl.where(value < 0, -size, size), mask=inside)


def shrink(x, threshold):
    """Move each value towards zero by the threshold of its column."""
    out, count = torch.empty_like(x), x.numel()
    __shrink_kernel[(triton.cdiv(count, 256),)](x, threshold, out, count, threshold.numel(), BLOCK=256)
    return out


class Iteration(nn.Module):
    """One round of finding few causes that explain a signal."""

    def __init__(self, width, causes):
        super().__init__()
        self.find, self.explain = nn.Linear(width, causes, bias=False), nn.Linear(causes, width)
        self.threshold = nn.Parameter(torch.full((causes,), 0.1))

    def forward(self, signal):
        return signal - self.explain(shrink(self.find(signal), self.threshold))


torch.manual_seed(0)
model = nn.Sequential(nn.LayerNorm(32), *[Iteration(32, 96) for _ in range(3)], nn.Linear(32, 2)).cuda().eval()
with torch.no_grad():
    print(torch.compile(model)(torch.randn(16, 32, device="cuda")).norm().item())
