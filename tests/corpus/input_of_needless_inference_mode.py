r"""A script runs in inference mode, of which its failure needs that there are no gradients.

reach: exit 0, 1 op
shows: torch\.no_grad\(\)
hides: inference_mode
layer: soak
"""

import oddlib
import torch


@torch.compile(backend="oddlib_no_grad")
def f(x, y):
    return torch.cos(torch.tanh(torch.sin(x))) + y


with torch.inference_mode():
    f(torch.randn(2, 3), torch.ones(2, 3))
