r"""A backend fails at two inputs of one storage.

reach: exit 0, 2 ops
shows: base\[1\]
layer: soak
"""

import oddlib
import torch


@torch.compile(backend="oddlib_overlapping")
def f(x, y):
    return torch.cos(torch.tanh(torch.sin(x))) + y


x = torch.randn(12)
f(x[:6], x[3:9])
