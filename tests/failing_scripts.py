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

# The end of a backend that has read, in its module or from a file, the name of the op that it refuses.
REFUSES_WHAT_IT_READ = """

@torch._dynamo.register_backend
def acme(gm, example_inputs):
    if any(node.target is getattr(torch, refused, None) for node in gm.graph.nodes):
        raise NotImplementedError(f"no lowering for {refused}")
    return gm.forward
"""
CALLS_ACME = """
import acme
import torch

torch.compile(lambda x: torch.tanh(torch.sin(x)) + 1, backend="acme")(torch.ones(3))
"""
