"""A script sets a variable of inductor's before it imports torch, which minify run has imported by then.

reach: exit 1
says: TORCHINDUCTOR_MAX_AUTOTUNE=1 minify run
layer: soak
"""

import os

os.environ["TORCHINDUCTOR_MAX_AUTOTUNE"] = "1"
import oddlib
import torch

torch.compile(torch.tanh, backend="oddlib_when", options={"when": "tuned"})(torch.randn(2, 3))
