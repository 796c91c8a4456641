"""The script reads a file beside it: in an empty folder it fails in any mode, which is not its failure.

reach: exit 4
says: no repro
"""

import os

import torch


@torch.compiler.assume_constant_result
def table():
    if torch._guards.TracingContext.try_get():
        raise IndexError("no row 3")
    return 2


if not os.path.exists("rows.txt"):
    raise RuntimeError("where is rows.txt?")
print(torch.compile(lambda x: torch.tanh(x) * table(), backend="eager", fullgraph=True)(torch.ones(4)).sum())
