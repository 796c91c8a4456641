"""A backend refuses a custom op that changes its argument.

reach: exit 0, 1 op
shows: shop::bump.*mutates_args
layer: soak
"""

import torch
from strict import strict


@torch.library.custom_op("shop::bump", mutates_args=("x",))
def bump(x: torch.Tensor, by: float) -> None:
    x.add_(by)


def fn(x):
    x = torch.relu(x.sin()) + 1
    bump(x, 2.0)
    return x.exp().sum()


torch.compile(fn, backend=strict, options={"words": ["bump"]})(torch.randn(4))
