r"""The compiled backward pass dies in the second step of a training.

reach: exit 0, 1 op
shows: return torch\.tanh\(x\).*for _ in range\(2\):.*\.backward\(
says: SIGSEGV
"""

import torch
from stepped import f, w, x

g = torch.compile(f, backend="oddlib_trains", options={"stage": "run", "call": 2, "how": "SIGSEGV"})
optimizer = torch.optim.SGD([w], lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    g(x + step, w).pow(2).sum().backward()
    optimizer.step()
