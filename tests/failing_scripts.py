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

# Backends that refuse a tanh, for a module beside the script.
NO_TANH = """
import torch
from torch._dynamo import register_backend

@register_backend
def no_tanh(gm, inputs):
    if any("tanh" in str(node.target) for node in gm.graph.nodes):
        raise LookupError("no tanh")
    return gm.forward
"""
NO_TANH_OF_AOT = """
import torch
from torch._dynamo.backends.common import aot_autograd


def lower(gm, inputs):
    if any("tanh" in str(node.target) for node in gm.graph.nodes):
        raise NotImplementedError("no lowering for tanh")
    return gm


no_tanh = aot_autograd(fw_compiler=lower)
"""
TRAINS = """
def step(x, weight):
    hidden = torch.relu(x @ weight) + 1
    return (torch.tanh(hidden) * hidden).sum()


compiled = torch.compile(step, backend=no_tanh, dynamic=DYNAMIC)
compiled(torch.ones(2, 3), torch.ones(3, 4, requires_grad=True)).backward()
"""
