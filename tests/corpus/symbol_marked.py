r"""A backend needs the sizes of a tanh, and the script marks one of them as dynamic.

reach: exit 0, 1 op
shows: mark_dynamic.*torch\.tanh\(x\)|torch\.tanh\(x\).*mark_dynamic
layer: soak
"""

import torch
from sized import f

x = torch.ones(4, 3)
torch._dynamo.mark_dynamic(x, 0)
torch.compile(f, backend="oddlib_symbol")(x, torch.ones(5, 3))
