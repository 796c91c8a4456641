r"""A custom op of the backend's package stands beside the op that is refused.

reach: exit 0, 1 op
shows: torch\.tanh\(x\)
hides: twice
layer: soak
"""

import oddlib
import torch
from oddops import twice

torch.compile(lambda x: torch.sum(torch.tanh(twice(torch.sin(x), 0.5))), backend="oddlib_tanh")(torch.randn(3))
