r"""Two results are wrong: one in its values, another, of another op, only in its dtype.

reach: exit 0, 1 op
shows: torch\.sigmoid\(.*wrong-result
hides: torch\.exp
layer: soak
"""

import functools

import torch
from refused import distort

backend = functools.partial(distort, what="sigmoid exp>float64")
f = torch.compile(lambda x: (torch.cos(torch.sigmoid(torch.sin(x))), torch.exp(x) + 1), backend=backend)
print(f(torch.randn(4, 8))[0].sum())
