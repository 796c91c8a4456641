r"""A backend refuses a linear in an autocast region alone.

reach: exit 0, 3 ops
shows: with torch\.autocast
"""

import torch
from strict import strict


def fn(x, w):
    x = torch.relu(x.sin()) + 1
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = torch.nn.functional.linear(x, w)
    return y.float().exp().sum()


torch.compile(fn, backend=strict, options={"words": ["_enter_autocast", "linear"]})(
    torch.randn(4, 3), torch.randn(3, 3)
)
