r"""A backend needs the sizes of a tanh, and a second size makes a symbol of one.

reach: exit 0, 1 op
shows: torch\.tanh\(x\).*another size
layer: soak
"""

import torch
from sized import f

compiled = torch.compile(f, backend="oddlib_symbol")
compiled(torch.ones(4, 3), torch.ones(5, 3))
compiled(torch.ones(6, 3), torch.ones(7, 3))
