r"""A backend refuses an assignment by indices of every kind.

reach: exit 0, 1 op
shows: \[:, y, ::1\] =
layer: soak
"""

import torch
from strict import strict


def fn(x, m, i):
    x = torch.relu(x)
    x[..., None, 1:3][m][:, i, ::2] = 3
    return x.exp()


mask = torch.tensor([True, False, True, True])
torch.compile(fn, backend=strict, options={"words": ["setitem"]})(torch.randn(4, 5), mask, torch.tensor([0, 0]))
