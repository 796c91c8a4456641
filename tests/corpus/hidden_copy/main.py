r"""The backend's module, beside the program, hides another one of its name that the import path has as well.

reach: exit 0, 1 op
shows: torch\.tanh\(x\)
layer: soak
"""

import picky
import torch

torch.compile(lambda x: torch.tanh(x + 1) * 2, backend=picky.refuse)(torch.randn(4))
