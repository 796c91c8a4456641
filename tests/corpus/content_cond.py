r"""A backend refuses branches, which read what is around them.

reach: exit 0, 1 op
shows: torch\.cond\(
hides: lambda
layer: soak
"""

import torch
from strict import strict


def fn(x, w):
    y = torch.relu(x.sin()) + 1
    x = torch.cond(x.sum() > 0, lambda a: torch.tanh(a) + y * w, lambda a: a.cos() * 2, (x,))
    return x.exp().sum()


torch.compile(fn, backend=strict, options={"words": ["cond"]})(torch.randn(4), torch.randn(4))
