r"""A backend refuses a linear in an autocast region, and outside of it too.

reach: exit 0, 1 op
shows: functional\.linear\(
hides: torch\.autocast
"""

import torch
from strict import strict


def fn(x, w):
    x = torch.relu(x.sin()) + 1
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = torch.nn.functional.linear(x, w)
    return y.float().exp().sum()


torch.compile(fn, backend=strict, options={"words": ["linear"]})(torch.randn(4, 3), torch.randn(3, 3))
