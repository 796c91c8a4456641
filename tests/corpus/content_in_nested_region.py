r"""A backend refuses a tanh inside of a region that is compiled once and called three times.

reach: exit 0, 1 op
shows: return torch\.tanh\(x\)
hides: nested_compile_region
"""

import torch
from strict import strict


@torch.compiler.nested_compile_region
def block(x, w):
    return torch.tanh(x @ w) * 2


def fn(x, w):
    for _ in range(3):
        x = block(x, w)
    return x.exp().sum()


torch.compile(fn, backend=strict, options={"words": ["tanh"]})(torch.randn(4, 3), torch.randn(3, 3))
