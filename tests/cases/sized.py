"""A function that reads the sizes of its arguments, between other ops than the one tanh."""

import oddlib  # noqa: F401 - registers backends
import torch


def f(x, y):
    z = torch.cat([torch.sin(x), y]).cos()
    z = z + z.sum(0) * x.shape[0]
    z = torch.tanh(z)
    return torch.relu(z).reshape(z.shape[0] * z.shape[1]) * y.shape[0]
