r"""A backend fails for the gradients of two biases; the addition that joins them has no op in the backward graph.

reach: exit 0, 4 ops
shows: \.backward\(
"""

import oddlib.training
import torch


def g(x, v, w):
    for _ in range(8):
        x = torch.sin(x)
    return torch.cos((x + v).view(8, 4) + w)


v, w = torch.zeros(8, requires_grad=True), torch.zeros(4, requires_grad=True)
torch.compile(g, backend="oddlib_trains_two_sums")(torch.randn(4, 8), v, w).sum().backward()
