r"""A backend refuses a tanh in a region without gradients.

reach: exit 0, 3 ops
shows: with torch\.no_grad
"""

import torch
from strict import strict


def fn(x, w):
    with torch.no_grad():
        y = torch.tanh(x @ w)
    return (y * x.sum()).exp().sum()


x = torch.randn(4, 3, requires_grad=True)
torch.compile(fn, backend=strict, options={"words": ["_set_grad_enabled", "tanh"]})(x, torch.randn(3, 3)).backward()
