"""A backward pass that Dynamo compiles: its graph calls functions that only this process has.

reach: exit 0, 5 statements
shows: no lowering for tanh_backward
"""

import torch
import torch._dynamo.config
from stepped import f, w, x

torch._dynamo.config.compiled_autograd = True
options = {"level": "forward", "op": "tanh_backward"}
torch.compile(lambda: f(x, w).sum().backward(), backend="faulty_raise", options=options)()
