r"""Nothing fails: Dynamo asks to trace again, at graph breaks and for other shapes.

reach: exit 1
says: nothing_traced_again\.py
layer: soak
"""

import torch


@torch.compile(backend="eager")
def f(x):
    x = torch.sin(x)
    print("a graph break")
    return x.nonzero() * 2


f(torch.ones(3)), f(torch.ones(4)), f(torch.ones(5, 2))
