"""AOTAutograd traces a backward pass that the script never makes, and that fails in eager mode too.

reach: exit 1
says: backward pass fails without the backend as well
layer: test
"""

import torch

fn = torch.compile(lambda x: torch.tanh(x * 2).unsqueeze_(0) + 1, backend="aot_eager")
y = fn(torch.randn(3, requires_grad=True))
