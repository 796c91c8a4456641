r"""The backend waits for a thread that its module has started, which no fork of the process has.

reach: exit 0, 1 op
shows: torch\.tanh\(x\).*"level": 2
run: --explain
says: each probe now imports it.*avoid +leave out options
layer: soak
"""

import lower
import torch

torch.compile(lambda x: torch.tanh(x + 1) * 2, backend=lower.refuse, options={"level": 2})(torch.randn(4))
