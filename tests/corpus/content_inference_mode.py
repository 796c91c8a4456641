r"""A backend refuses a tanh in a region in inference mode.

reach: exit 0, 3 ops
shows: with torch\.inference_mode
hides: torch\.autograd\.grad_mode
"""

import torch
from strict import strict


def fn(x):
    with torch.inference_mode():
        y = torch.tanh(torch.relu(x.sin()) + 1)
    return y.exp().sum()


torch.compile(fn, backend=strict, options={"words": ["_enter_inference_mode", "tanh"]})(torch.randn(4))
