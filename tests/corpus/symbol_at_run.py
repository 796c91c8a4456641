r"""Code that was compiled for a symbolic size refuses its tanh when it runs.

reach: exit 0, 1 op
shows: torch\.tanh\(x\).*another size
layer: soak
"""

import torch
from sized import f

compiled = torch.compile(f, backend="oddlib_symbol_at_run")
compiled(torch.ones(4, 3), torch.ones(5, 3))
compiled(torch.ones(6, 3), torch.ones(7, 3))
