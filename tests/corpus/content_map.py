r"""A backend refuses a map over rows.

reach: exit 0, 1 op
shows: import map.*map\(
layer: soak
"""

import torch
from strict import strict
from torch._higher_order_ops.map import map as torch_map


def fn(x, w):
    y = torch_map(lambda row, w: torch.tanh(row) * w, torch.relu(x.sin()), w)
    return y.exp().sum()


torch.compile(fn, backend=strict, options={"words": ["map"]})(torch.randn(4, 3), torch.randn(3))
