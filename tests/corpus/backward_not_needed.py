r"""A kernel fails in the forward pass of a training; the backend cannot do any backward pass either.

reach: exit 0, 1 op
shows: return torch\.tanh\(x\)
hides: backward|requires_grad
"""

import torch
from stepped import f, w, x

torch.compile(f, backend="faulty_raise", options={"stage": "run", "op": "tanh"})(x, w).sum().backward()
