"""The script fails in eager mode too, behind a graph that compiles.

reach: exit 1
says: by itself
layer: soak
"""

import torch

torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2))
raise ValueError("mine")
