"""Parts of failing scripts."""

DEFINITION = """
import torch
import oddlib


def f(x):
    for _ in range(10):
        x = torch.sin(x) * 1.5
    x = torch.tanh(x)
    for _ in range(10):
        x = torch.cos(x) - 0.5
    return x

"""
# 41 ops, of which the backend refuses one.
ONE_OP = DEFINITION + 'torch.compile(f, backend="oddlib_tanh")(torch.randn(4, 8))\n'
OPS = 41

TWO_OPS = """
import torch
import oddlib


def f(x):
    x = torch.softmax(x, -1)
    for _ in range(12):
        x = torch.sin(x) * 1.5
    x = torch.tanh(x)
    for _ in range(12):
        x = torch.cos(x) - 0.5
    return x

"""

SLOW = """
import torch
import oddlib


def f(x):
    for part in (torch.softmax, torch.sigmoid, torch.tanh):
        for _ in range(8):
            x = torch.sin(x) * 1.5
        x = part(x, -1) if part is torch.softmax else part(x)
    return x


torch.compile(f, backend="oddlib_slow")(torch.randn(4, 8))
"""
