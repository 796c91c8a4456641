r"""A backend refuses a tanh under vmap.

reach: exit 0, 1 op
shows: return torch\.tanh\(x\)
hides: vmap
"""

import torch
from strict import strict


def fn(x, w):
    return torch.vmap(lambda row: torch.tanh(row @ w))(torch.relu(x.sin())).exp().sum()


torch.compile(fn, backend=strict, options={"words": ["tanh"]})(torch.randn(4, 3), torch.randn(3))
