r"""A backend refuses a tanh beside sizes that values decide.

reach: exit 0, 1 op
shows: return torch\.tanh\(x\)
"""

import torch
from strict import strict

torch._dynamo.config.capture_scalar_outputs = True
torch._dynamo.config.capture_dynamic_output_shape_ops = True


def fn(x, n):
    k = n.item()
    torch._check(k >= 1)
    return torch.tanh(torch.zeros(k)).sum() + x.nonzero().sum()


torch.compile(fn, backend=strict, options={"words": ["tanh"]})(torch.randn(4), torch.tensor(3))
