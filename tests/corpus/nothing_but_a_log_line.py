r"""The backend logs that an op runs in eager, which is a failure only if it is asked for.

reach: exit 1
says: --match-log
layer: soak
"""

import oddlib.deadly
import torch

torch.compile(torch.tanh, backend="oddlib_grumbles", options={"how": "ERROR"})(torch.ones(2))
