r"""A compiler of ATen graphs refuses a tanh whose sizes are no symbols.

reach: exit 0, 1 op
shows: return torch\.tanh\(x\)
"""

import oddlib
import torch

torch.compile(lambda x: torch.tanh(torch.sin(x)), backend="oddlib_aten_static")(torch.ones(4, 3))
