r"""The backend ends the process while it compiles an op.

reach: exit 0, 1 op
shows: torch\.tanh\(x\)
says: exit
layer: soak
"""

import minifier_backends.faulty
import torch

torch.compile(lambda x: torch.cos(torch.tanh(x)), backend="faulty_exit")(torch.ones(3))
