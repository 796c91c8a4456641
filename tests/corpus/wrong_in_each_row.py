"""An op is wrong for each row of a batch: what it is given is known only inside of vmap.

reach: exit 0, 1 op
shows: tanh.*assert_close
hides: functorch
"""

import minifier_backends.faulty
import torch


def fn(x, w):
    x = torch.relu(x.sin()) + 1
    y = torch.vmap(lambda row: torch.tanh(row * w))(x)
    return y.exp().sum()


options = {"op": "tanh", "factor": 1.5}
torch.compile(fn, backend="faulty_wrong", options=options)(torch.randn(4, 3), torch.randn(3))
