r"""Nothing fails, and the program ends without the interpreter's own end.

reach: exit 1
says: status 0
layer: soak
"""

import os

import torch

torch.compile(torch.sin, backend="eager")(torch.ones(2))
os._exit(0)
