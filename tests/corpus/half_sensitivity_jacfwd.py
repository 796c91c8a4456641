r"""The C++ that inductor writes does not compile: forward derivatives of products of half precision matrices.

source: https://github.com/pytorch/pytorch/issues/194706
reach: exit 0, 5 statements
shows: (jacfwd|jvp|half|float16).*(CppCompileError|CompileError|C\+\+)|CppCompileError
"""

import torch
from torch.func import jacfwd


def response(x):
    """The response of a chain of three couplings, each shifted by a summary of the state."""
    first = torch.mm(torch.prod(x) + x, torch.sum(x) + x)
    second = torch.mm(first, torch.sum(x) + x)
    return torch.sum(second)


state = (torch.arange(1, 10, dtype=torch.float16) / 10).reshape(3, 3)
print("eager", jacfwd(response)(state))
print("compiled", torch.compile(jacfwd(response))(state))
