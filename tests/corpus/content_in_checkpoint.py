r"""A backend refuses a tanh inside of a checkpoint.

reach: exit 0, 1 op
shows: return torch\.tanh\(x\)
hides: checkpoint
layer: soak
"""

import torch
from strict import strict
from torch.utils.checkpoint import checkpoint


def block(x):
    return torch.tanh(x.sin()) * 2


def fn(x):
    return checkpoint(block, torch.relu(x), use_reentrant=False).exp().sum()


torch.compile(fn, backend=strict, options={"words": ["tanh"]})(torch.randn(4, requires_grad=True)).backward()
