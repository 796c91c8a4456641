"""A function of 42 ops, and inputs of a step of its training: its backward pass has one tanh_backward."""

import minifier_backends.faulty  # noqa: F401 - registers backends
import oddlib.training  # noqa: F401 - registers backends
import torch


def f(x, w):
    for _ in range(10):
        x = torch.sin(x) * 1.5
    x = torch.tanh(x @ w)
    for _ in range(10):
        x = torch.cos(x) - 0.5
    return x


torch.manual_seed(0)
x, w = torch.randn(4, 8), torch.randn(8, 8, requires_grad=True)
