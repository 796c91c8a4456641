r"""A backend fails at a tensor that was made in inference mode, in a call under it.

reach: exit 0, 1 op
shows: with torch\.inference_mode\(\):\n    x = torch\.randn\(1\)\n
"""

import oddlib
import torch


@torch.compile(backend="oddlib_inference_tensor")
def f(x, y):
    return torch.cos(torch.tanh(torch.sin(x))) + y


with torch.inference_mode():
    f(torch.randn(2, 3), torch.ones(2, 3))
