r"""A backend fails at an input with a gradient that repeats its values.

reach: exit 0, 1 op
shows: \.as_strided\(\(1,\), \(0,\)\)\)\.requires_grad_\(\)\.clone\(\)
"""

import oddlib
import torch


@torch.compile(backend="oddlib_expanded_gradient")
def f(x, y):
    return torch.cos(torch.tanh(torch.sin(x))) + y


x = torch.randn(1, 3, requires_grad=True).expand(2, 3)
f(x, x)
