r"""Two graphs fail in the same words; the second is asked for by its number.

reach: exit 0, 1 op
run: --graph 2
says: graph 2
layer: soak
"""

import oddlib
import torch

for other in (torch.sin, torch.cos):
    try:
        torch.compile(lambda x, other=other: torch.tanh(other(x)).exp(), backend="oddlib_tanh")(torch.zeros(4))
    except Exception:
        torch._dynamo.reset()
