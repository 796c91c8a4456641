r"""The innermost frame is the script's, but only torch.compile fails there; eager mode goes on to another error.

reach: exit 0, 7 statements
shows: IndexError
hides: tanh|mine
layer: soak
"""

import torch


@torch.compiler.assume_constant_result
def table():
    if torch._guards.TracingContext.try_get():
        raise IndexError("no row 3")
    return 2


def fn(x):
    x = torch.tanh(x) + 1
    return x * table()


print("started")
print(torch.compile(fn, backend="eager", fullgraph=True)(torch.ones(4) + 1).sum())
raise ValueError("mine")
