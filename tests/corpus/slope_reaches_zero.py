r"""Compiled code divides by a number that is a symbol from the second call on, and zero in the third.

reach: exit 0, 2 ops
shows: x = 0\.0
layer: soak
"""

import torch


def no_zero(gm, inputs):
    def run(*args):
        if any(value.ndim == 0 and value == 0 for value in args):  # no size is a symbol
            raise ZeroDivisionError("a number is zero")
        return gm(*args)

    return run


@torch.compile(backend=no_zero)
def step(x, slope):
    return torch.nn.functional.leaky_relu(torch.sin(x) * 3, slope).sum(-1)


for slope in (0.2, 0.1, 0.0):
    step(torch.ones(2, 3), slope)
