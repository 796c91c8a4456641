r"""Without gradients, and whether autocast is on or off, the backend refuses an op; it is the default backend.

reach: exit 0, 1 op
shows: with torch\.no_grad\(\):.*"oddlib_no_grad"
hides: autocast|default_backend
layer: soak
"""

import oddlib
import torch

torch.compiler.set_default_backend("oddlib_no_grad")
with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
    torch.compile(lambda x: torch.softmax(x, -1).sin().tanh().cos())(torch.randn(4, 8))
