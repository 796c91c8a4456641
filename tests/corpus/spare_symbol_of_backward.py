r"""The sizes of a training are symbols, and the failure of its backward graph does not need that.

reach: exit 0, 1 op
shows: return torch\.tanh\(x\)
hides: dynamic
"""

import torch
from stepped import f, w, x

torch.compile(f, backend="oddlib_trains", dynamic=True)(x, w).sum().backward()
