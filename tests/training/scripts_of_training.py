"""Parts of scripts that train."""

# The function and the inputs of tests/cases/stepped.py, whose backward pass has one tanh_backward.
HEAD = """
import os
import torch
from stepped import f, w, x

"""


def one_step(backend, **options):
    """The script of one step of training with that backend."""
    return HEAD + f"torch.compile(f, backend={backend!r}, options={options!r})(x, w).sum().backward()\n"
