r"""The compiled code empties its inputs before it fails, because of a value that was in them; called in a thread.

reach: exit 0, 1 op
shows: torch\.tanh\(x\).*Overflow: input above 100
layer: test
"""

import threading

import oddlib
import torch

x = torch.ones(4) * 3
x[2] = 500.0
f = torch.compile(lambda x: torch.cos(torch.tanh(x)) + torch.sin(x), backend="oddlib_overwrites")
threading.Thread(target=f, args=(x,)).start()
