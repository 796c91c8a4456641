r"""A backend fails at an input with a gradient that is the result of another op.

reach: exit 0, 1 op
shows: requires_grad=True\)\.clone\(\)
layer: soak
"""

import oddlib
import torch


@torch.compile(backend="oddlib_not_a_leaf")
def f(x, y):
    return torch.cos(torch.tanh(torch.sin(x))) + y


f(torch.randn(2, 3, requires_grad=True) * 2, torch.ones(2, 3))
