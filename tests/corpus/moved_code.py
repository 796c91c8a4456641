r"""The process crashes in the code of a first graph, once a second graph was compiled.

reach: exit 0, 1 op
shows: (compiled\w*\(.*){3}SIGSEGV
layer: soak
"""

import ctypes

import torch

made = []


def moving(gm, inputs):
    made.append(gm)
    number = len(made)
    return lambda *args: gm.forward(*args) if number == len(made) else ctypes.string_at(8)


a, b = (torch.compile(torch.nn.LayerNorm(n), backend=moving) for n in (8, 6))
a(torch.ones(2, 8))
b(torch.ones(2, 6))
a(torch.ones(2, 8))
