r"""A backend refuses a tanh inside of a branch.

reach: exit 0, 1 op
shows: return torch\.tanh\(x\)
hides: torch.cond
"""

import torch
from strict import strict


def fn(x, w):
    y = torch.relu(x.sin()) + 1
    x = torch.cond(x.sum() > 0, lambda a: torch.tanh(a) + y * w, lambda a: a.cos() * 2, (x,))
    return x.exp().sum()


torch.compile(fn, backend=strict, options={"words": ["tanh"]})(torch.randn(4), torch.randn(4))
