"""A kernel fails inside of torch.func.grad, which is left open by what is raised.

reach: exit 0, 1 op
shows: tanh
layer: soak
"""

import minifier_backends.faulty
import torch


def fn(x):
    return torch.func.grad(lambda t: t.sin().tanh().sum())(x * 2).cos()


torch.compile(fn, backend="faulty_raise", options={"stage": "run"})(torch.randn(3, 4))
