r"""The process dies while Dynamo traces: a constant of the model is computed, and only under torch.compile.

reach: exit 0, 8 statements
shows: os\.kill
hides: tanh|started
says: SIGSEGV
layer: soak
"""

import os

import torch


@torch.compiler.assume_constant_result
def table():
    if torch._guards.TracingContext.try_get():
        os.kill(os.getpid(), 11)
    return 2


def fn(x):
    x = torch.tanh(x) + 1
    return x * table()


print("started")
print(torch.compile(fn, backend="eager", fullgraph=True)(torch.ones(4) + 1).sum())
