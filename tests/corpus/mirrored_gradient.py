r"""A backend without AOTAutograd mirrors a gradient: it is right for gradients that are the same everywhere.

reach: exit 0, 1 op
shows: return torch\.tanh\(x\).*torch\.autograd\.grad\(
layer: soak
"""

import torch
from stepped import f, w, x

torch.compile(f, backend="oddlib_mirrors")(x, w).sum().backward()
