r"""A compiler of backward graphs mirrors a gradient: it is right for gradients that are the same everywhere.

reach: exit 0, 1 op
shows: return torch\.tanh\(x\).*torch\.autograd\.grad\(
"""

import torch
from stepped import f, w, x

torch.compile(f, backend="oddlib_mirrors_aten")(x, w).sum().backward()
