r"""The backend prints and starts a thread when it is imported, and a process that never ends for each graph.

reach: exit 0, 1 op
shows: torch\.tanh\(x\)
says: \A(?!.*each probe now imports it).*banner
layer: soak
"""

import busy
import torch

torch.compile(lambda x: torch.tanh(x + 1) * 2, backend=busy.refuse)(torch.randn(4))
