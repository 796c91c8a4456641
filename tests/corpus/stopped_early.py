r"""A run that is stopped after one probe gives away none of the program's values.

reach: exit 3
hides: safetensors
run: --max-probes 1
layer: soak
"""

import oddlib
import torch

secret = torch.arange(400.0).reshape(20, 20) + 0.125
torch.compile(lambda x, w: torch.tanh(x @ w), backend="oddlib_tanh")(torch.rand(4, 20), secret)
