r"""A backend refuses a while_loop.

reach: exit 0, 1 op
shows: torch\.while_loop\(
hides: higher_order
"""

import torch
from strict import strict


def fn(x):
    x = torch.relu(x.sin()) + 1
    n = torch.zeros((), dtype=torch.int64)
    n, x = torch.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, torch.tanh(a) * 2), (n, x))
    return x.exp().sum()


torch.compile(fn, backend=strict, options={"words": ["while_loop"]})(torch.randn(4))
