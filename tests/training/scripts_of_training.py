"""Parts of scripts that train."""

# A step of training of a function of 43 ops, of which one has a tanh's backward.
HEAD = """
import os
import torch
import minifier_backends.faulty
import oddlib.training


def f(x, w):
    for _ in range(10):
        x = torch.sin(x) * 1.5
    x = torch.tanh(x @ w)
    for _ in range(10):
        x = torch.cos(x) - 0.5
    return x


torch.manual_seed(0)
x, w = torch.randn(4, 8), torch.randn(8, 8, requires_grad=True)

"""
OPS = 42


def one_step(backend, **options):
    """The script of one step of training with that backend."""
    return HEAD + f"torch.compile(f, backend={backend!r}, options={options!r})(x, w).sum().backward()\n"
