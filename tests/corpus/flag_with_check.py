r"""A wrong result that no graph shows again: the script's own check shows it.

reach: exit 0, 8 statements
shows: assert torch\.allclose
layer: test
"""

import torch
from flagged import flagged

FLAG = True


def fn(x):
    return torch.relu(torch.sin(x)) * 3


x = torch.rand(4, 4)
out = torch.compile(fn, backend=flagged)(x)
assert torch.allclose(out, fn(x)), "wrong values"
