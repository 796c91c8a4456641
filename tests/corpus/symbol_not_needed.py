r"""A script with dynamic=True, whose failure does not need it.

reach: exit 0, 1 op
shows: return torch\.tanh\(x\)
hides: dynamic
"""

import torch
from sized import f

torch.compile(f, backend="oddlib_tanh", dynamic=True)(torch.ones(4, 3), torch.ones(4, 3))
