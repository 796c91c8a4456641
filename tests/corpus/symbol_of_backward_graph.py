"""A compiler of backward graphs needs the sizes of a tanh_backward, and they are symbols.

reach: exit 0, 1 op
shows: tanh.*dynamic=True
layer: soak
"""

import torch
from stepped import f, w, x

torch.compile(f, backend="oddlib_backward_symbol", dynamic=True)(x, w).sum().backward()
