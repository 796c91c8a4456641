r"""The compiler of the backward graph has no lowering for tanh_backward.

reach: exit 0, 1 op
shows: return torch\.tanh\(x\).*y\.backward\(torch\.randn_like\(y\)\).*no lowering for tanh_backward in a backward graph
layer: soak
"""

import torch
from stepped import f, w, x

torch.compile(f, backend="faulty_backward")(x, w).sum().backward()
