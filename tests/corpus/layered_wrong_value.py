r"""The forward graph's tanh is half as large again, in bfloat16.

reach: exit 0, 1 op
shows: return torch\.tanh\(x\).*assert_close
layer: soak
"""

import torch
from layered import step

step("faulty_wrong", dtype=torch.bfloat16, trains=True, op="tanh", level="forward", factor=4.0)
