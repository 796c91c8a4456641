r"""The program asserts values, a comparison meets a wrong dtype first: another op has the wrong values.

reach: exit 0, 1 op
shows: torch\.relu\(
layer: soak
"""

import functools

import torch
from refused import distort


def f(x):
    return torch.exp(torch.relu(torch.sin(x) - 0.5) * 3)


x = torch.rand(4, 4)
out = torch.compile(f, backend=functools.partial(distort, what="exp>float64 relu"))(x)
assert torch.allclose(out.float(), f(x)), "wrong values"
