r"""A backend needs the sizes of a tanh, and dynamic=True hides them.

reach: exit 0, 1 op
shows: return torch\.tanh\(x\).*dynamic=True
layer: soak
"""

import torch
from sized import f

torch.compile(f, backend="oddlib_symbol", dynamic=True)(torch.ones(4, 3), torch.ones(4, 3))
