r"""A backend in a package refuses one op of 41, while it compiles.

reach: exit 0, 1 op
shows: import oddlib.*torch\.tanh\(x.*backend="oddlib_tanh"
hides: torch\.(sin|cos)|no_grad|set_|environ|config
says: 41 ops
layer: soak
"""

import oddlib
import torch


def f(x):
    for _ in range(10):
        x = torch.sin(x) * 1.5
    x = torch.tanh(x)
    for _ in range(10):
        x = torch.cos(x) - 0.5
    return x


torch.compile(f, backend="oddlib_tanh")(torch.randn(4, 8))
