r"""A backend fails at a tensor that was made in inference mode, outside of it.

reach: exit 0, 1 op
shows: with torch\.inference_mode\(\):\n    x = torch\.randn\(1\)\n
layer: soak
"""

import oddlib
import torch


@torch.compile(backend="oddlib_inference_tensor")
def f(x, y):
    return torch.cos(torch.tanh(torch.sin(x))) + y


with torch.inference_mode():
    x = torch.randn(2, 3)
f(x, torch.ones(2, 3))
